"""Run a model on every path that it offers (fused, cached, masked, padded ...) and compare it with its plain pass.

The target is a file's class or factory as for `course doctor`, or `transformers:FAMILY`, of which a tiny random model
is built: nothing is downloaded. Importing a file runs it: name only code that you would run yourself.
"""

import argparse
import sys
from typing import Any

from .clone import CourseError
from .examination import add_meant, add_output, add_sizes, add_targets, examine, quietly, say, sizes
from .parallel import TARGETS, cores
from .target import Opened, evaluate, open_setup, open_target, split

FAMILY = "transformers:"
EXAMPLES = """\
examples:
  course scan model.py:GPT --args "GPTConfig(n_layer=2, n_head=3, n_embd=12, vocab_size=65)"
  course scan attention.py:Attention --args "12, 12, 3" --cache "lambda x: []"
  course scan transformers:llama transformers:gemma3_text
  course scan model.py:Translator --x "torch.randint(65, (2, 9))" --context "torch.randint(65, (2, 11))"
  course scan --setup my_setup.py     # its build() returns (model, x, dict(context=ids))
  course scan --families        # all decoders and encoder-decoders of the installed transformers

The exit status is 0 if everything was examined and all paths agree, 1 if something is wrong, and 2 if nothing is wrong
but the model, a path that it offers or an attention in it could not be opened or examined; of several targets it is 1
if something is wrong with any of them, else 2 if any was not fully examined.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the targets, their input, and the forms of the output."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add_targets(parser)
    add_sizes(parser, batch=2, tokens=9)
    add = parser.add_argument
    add("--families", action="store_true", help="every decoder and encoder-decoder of the installed transformers")
    add("--jobs", type=int, default=cores(), help="processes for several targets (default: the cores, %(default)s)")
    add("--paths", metavar="NAMES", help='these paths only, such as "one pass, token by token"')
    add("--vocabulary", type=int, help="give token ids below this number (default: the size of a first embedding)")
    add("--context", metavar="CODE", help='what an encoder is given besides x: "torch.randint(65, (2, 11))"')
    add_meant(parser)
    add("--cache", metavar="CODE", help='makes an empty cache, if it is an argument: "lambda x: KVCache(len(x), 3)"')
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Scan each target, print the reports, and return the status of all."""
    if args.families:
        from course_lib.scan import families

        args.targets += [FAMILY + family for family in families()]
    typed = [(target, _report_of_family if target.startswith(FAMILY) else _report) for target in args.targets]
    return examine(args, typed + [(file, _report_of_setup) for file in args.setup])


def _report_of_setup(file: str, args: argparse.Namespace, notes: list[str]) -> Any:
    say(args, [f"running build() of {file}"])
    opened, x, options = open_setup(file, args.device)
    say(args, opened.notes, notes)
    if unknown := sorted(options.keys() - {"causal", "context", "make_cache", "scale", "window", "normalised"}):
        raise CourseError(
            f"build() of {file} gave {', '.join(unknown)}, and a scan takes call, causal, context, make_cache, "
            f"scale, window and normalised."
        )
    overrides = {name: options[name] for name in ("scale", "window") if name in options}
    overrides["not_normalised"] = not options.get("normalised", not args.not_normalised)
    overrides["not_causal"] = not options.get("causal", not args.not_causal)
    args = argparse.Namespace(**{**vars(args), **overrides})
    given = {name: options.get(name) for name in ("context", "make_cache")}
    with quietly(args, notes):
        return _scanned(opened.code, x, args, call=opened.call, name=type(opened.code).__name__, **given)


def _report_of_family(typed: str, args: argparse.Namespace, notes: list[str]) -> Any:
    from course_lib.scan import NotBuilt, ScanReport, tiny_context, tiny_ids, tiny_model

    family = typed.removeprefix(FAMILY)
    try:
        model = tiny_model(family)
        context = tiny_context(model, args.batch)
    except ImportError as error:
        raise CourseError(f"{typed} needs the package transformers: pip install transformers.") from error
    except ValueError as error:
        raise CourseError(str(error)) from None
    except NotBuilt as error:
        return ScanReport(family, failure=f"no tiny model of it could be built ({error})")
    ids = tiny_ids(args.batch, args.tokens)
    return _scanned(model, ids, args, context=context, call=None, make_cache=None, name=family)


def _report(typed: str, args: argparse.Namespace, notes: list[str]) -> Any:
    target = split(typed)
    say(args, [f"running {target.name} of {target.source} (importing a file runs it)"])
    opened = open_target(target, args.args, args.call, args.device, names=(args.x, args.cache, args.context))
    say(args, opened.notes, notes)
    with quietly(args, notes):
        return _report_of_opened(target.name, opened, args, notes)


def _report_of_opened(name: str, opened: Opened, args: argparse.Namespace, notes: list[str]) -> Any:
    import torch
    from torch import nn

    context = None if args.context is None else evaluate("--context", args.context, opened.module)
    make_cache = None if args.cache is None else evaluate("--cache", args.cache, opened.module)
    generator = torch.Generator().manual_seed(0)
    if args.x is not None:
        x = evaluate("--x", args.x, opened.module)
    elif vocabulary := args.vocabulary or _vocabulary(opened.code):
        x = torch.randint(0, vocabulary, (args.batch, args.tokens), generator=generator)
    else:
        x = torch.randn(*sizes(opened, name, args, notes), generator=generator)
    if not isinstance(opened.code, nn.Module):
        raise CourseError(f"{name} is no module, which a scan needs: wrap it in an nn.Module.")
    return _scanned(opened.code, x, args, context=context, call=opened.call, make_cache=make_cache, name=name)


def _scanned(
    model: Any, x: Any, args: argparse.Namespace, *, context: Any, call: Any, make_cache: Any, name: str
) -> Any:
    from course_lib.scan import ON_REQUEST, PATHS, scan

    few = len(args.targets) < TARGETS  # of many, the progress is shown per target
    paths = None if args.paths is None else _split_names(args.paths, [path.name for path in (*PATHS, *ON_REQUEST)])
    names = paths or [path.name for path in PATHS]

    def show(path: str) -> None:
        done = names.index(path)
        if sys.stderr.isatty() and few:
            print(f"\r{name:<24} {'#' * done}{'.' * (len(names) - done)} {path:<18}", end="", file=sys.stderr)

    try:
        report = scan(model, x, causal=not args.not_causal, context=context, call=call, make_cache=make_cache,
                      scale=args.scale, window=args.window, normalised=not args.not_normalised,
                      paths=paths, name=name, on_path=show)  # fmt: skip
    except (TypeError, ValueError) as error:
        raise CourseError(str(error)) from None
    if sys.stderr.isatty() and few:
        print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    return report


def _split_names(text: str, known: list[str]) -> list[str]:
    """Split names at commas, except the comma inside a known name, such as "padded, cached"."""
    parts, names = [part.strip() for part in text.split(",")], []
    while parts:
        both = ", ".join(parts[:2])
        names.append(both if both in known else parts[0])
        del parts[: 2 if both in known else 1]
    return names


def _vocabulary(module: Any) -> int | None:
    """Return the size of the vocabulary if the first layer with weights is an embedding."""
    from torch import nn

    modules = module.modules() if isinstance(module, nn.Module) else ()
    first = next((submodule for submodule in modules if any(True for _ in submodule.parameters(recurse=False))), None)
    return first.num_embeddings if isinstance(first, nn.Embedding) else None
