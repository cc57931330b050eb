"""Find the mistakes in attention code of your own: what is wrong, on which line, and a question that leads to it.

NAME is a class, which is built with --args; a module; a function of x, or of queries, keys and values; or a function
that returns a module. Importing a file runs it, and so does building the class: name only code that you would run
yourself.
"""

import argparse
from typing import Any

from .clone import CourseError
from .examination import (
    add_meant,
    add_output,
    add_sizes,
    add_targets,
    examine,
    input_of,
    quietly,
    say,
    with_guessed_call,
)
from .target import Heads, Opened, Target, evaluate, open_setup, open_target, part_to_take, split

EXAMPLES = """\
examples:
  course doctor my_attention.py:MultiHeadAttention --args "12, 12, num_heads=3" --num-heads 3
  course doctor model.py:CausalSelfAttention --args "GPTConfig(n_head=3, n_embd=12, block_size=64)"
  course doctor my_package/model/attention.py:Attention --args "dim=12, n_heads=6, n_kv_heads=2"
  course doctor my_package.model.attention:build --args "dim=12" --call "lambda m, x: m(x)[0]"
  course doctor lesson.ipynb:MultiHeadAttention encoder.py:Attention
  course doctor --setup my_setup.py     # its build() returns (module, x, dict(num_heads=6))

A file in a package is imported as a part of it, so relative imports work. Without --args a class gets small sizes that
are guessed from the names of its parameters, and the output says which. Packages that are not installed are stood in
for and named; attention that really needs one says so. Of a notebook, and of a file that has loops of its own or fails
when it is imported, only what NAME needs is run.

The exit status is 0 if everything was examined and nothing is wrong, 1 if something is wrong, and 2 if nothing is wrong
but the code, an attention in it or its cache could not be opened or examined; of several targets it is 1 if something
is wrong with any of them, else 2 if any was not fully examined.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the targets, what is known about them, and the forms of the output."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add_targets(parser)
    add_sizes(parser, batch=2, tokens=5)
    add = parser.add_argument
    add("--num-heads", type=int, help="how many heads the code should have")
    add("--num-kv-heads", type=int, help="how many heads of keys and values it should have")
    add("--keep", metavar="CODE", help='who may see whom besides that, True = may: "torch.ones(5, 5).tril() > 0"')
    add_meant(parser)
    add("--lengths", type=_numbers, metavar="4,16", help="the only numbers of tokens that the code takes")
    of_context = "cross-attention's context, which --call gets third: its number of tokens, if it is as wide as x, or "
    add("--context", metavar="CODE", help=of_context + '"torch.randn(2, 7, 24)"')
    add("--expect", metavar="NAME", help="right code, of the same file or as FILE.py:NAME, built in the same way")
    add("--expect-call", metavar="CODE", help="how to run that, if not by --call with the names of its own file")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Examine each target, print the reports, and return the status of all."""
    typed = [(target, _report) for target in args.targets] + [(file, _report_of_setup) for file in args.setup]
    return examine(args, typed)


def _report(typed: str, args: argparse.Namespace, notes: list[str]) -> Any:
    target, names, heads = split(typed), (args.x, args.keep, args.context), (args.num_heads, args.num_kv_heads)
    say(args, [f"running {target.name} of {target.source} (importing a file runs it)"])
    opened = open_target(target, args.args, args.call, args.device, names, heads)
    say(args, opened.notes, notes)
    with quietly(args, notes):
        return _report_of_opened(target, opened, args, notes)


def _report_of_opened(target: Target, opened: Opened, args: argparse.Namespace, notes: list[str]) -> Any:
    options: dict[str, Any] = {"num_heads": args.num_heads, "num_kv_heads": args.num_kv_heads}
    options["keep"] = None if args.keep is None else evaluate("--keep", args.keep, opened.module)
    x = input_of(opened, target.name, args, notes)
    if args.context is not None:
        options["context"] = _context(evaluate("--context", args.context, opened.module), x)
    if opened.call is None:
        opened = with_guessed_call(opened, x, args, notes, options.get("context"))
    if args.expect is not None:
        options["expect"] = _reference(target, args, (args.num_heads, args.num_kv_heads))
    _check_call(opened, args, *(tensor for tensor in (x, options.get("context")) if tensor is not None))
    return _diagnosed(opened, x, {"causal": not args.not_causal, **options, **_intentions(args)})


def _reference(target: Target, args: argparse.Namespace, heads: Heads) -> tuple[Any, Any]:
    """Open the right code; `--call` reads the helpers of the file that holds it."""
    reference = split(args.expect) if ":" in args.expect else target._replace(name=args.expect)
    opened = open_target(reference, args.args, args.expect_call or args.call, args.device, heads=heads)
    return opened.code, opened.call if args.expect_call or reference.source != target.source else None


def _check_call(opened: Opened, args: argparse.Namespace, *inputs: Any) -> None:
    """Refuse a --call that gives back more than the output: nothing is wrong with the code for that."""
    if args.call is None or opened.call is None:
        return
    if part := part_to_take(opened.code, opened.call, *inputs):
        example = f'--call "{args.call.strip()}{part}"'
        raise CourseError(f"--call gave back more than one thing: say which of them is the output, such as {example}.")


def _report_of_setup(file: str, args: argparse.Namespace, notes: list[str]) -> Any:
    say(args, [f"running build() of {file}"])
    opened, x, options = open_setup(file, args.device)
    say(args, opened.notes, notes)
    with quietly(args, notes):
        return _diagnosed(opened, x, options)


def _diagnosed(opened: Opened, x: Any, options: dict[str, Any]) -> Any:
    from course_lib.diagnosis import diagnose

    try:
        return diagnose(opened.code, x, call=opened.call, **options)
    except (TypeError, ValueError) as error:
        raise CourseError(str(error)) from None


def _context(context: Any, x: Any) -> Any:
    """Return the tensor that --context holds, or one of that many tokens as wide as x."""
    import torch

    if isinstance(context, torch.Tensor):
        return context
    if not isinstance(context, int) or context < 1 or not x.is_floating_point():
        count = "a number of tokens, at least 1, or " if x.is_floating_point() else ""
        remedy = f"give {count}a tensor of the shape (batch, tokens, width)"
        raise CourseError(f"--context is {context!r}: {remedy}.")
    return torch.randn(len(x), context, x.shape[-1], generator=torch.Generator().manual_seed(1))


def _intentions(args: argparse.Namespace) -> dict[str, Any]:
    intended = {"scale": args.scale, "window": args.window, "lengths": args.lengths}
    return intended | {"normalised": not args.not_normalised}


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]
