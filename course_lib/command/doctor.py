"""Find the mistakes in attention code of your own: what is wrong, on which line, and a question that leads to it.

NAME is a class, which is built with --args; a module; a function of x, or of queries, keys and values; or a function
that returns a module. Importing a file runs it, and so does building the class: name only code that you would run
yourself.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from .clone import CourseError
from .results import Result, as_json, github_lines, overall, sarif
from .target import ANY, Opened, evaluate, guess_call, open_setup, open_target, runs, split, why_not, width_of

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

The exit status is 0 if nothing is wrong, 1 if something was found and 2 if the code could not be opened or examined;
of several targets it is 1 if something was found in any of them, else 2 if any could not be examined.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the targets, what is known about them, and the forms of the output."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    _add_targets(parser)
    _add_input(parser)
    _add_output(parser)


def _add_targets(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "targets",
        nargs="*",
        metavar="FILE.py:NAME",
        help="the file, notebook (FILE.ipynb:NAME) or package.module, and the class, module, function or factory in it",
    )
    add(
        "--setup",
        action="append",
        default=[],
        metavar="FILE",
        help="a file whose build() returns (module, x, options of diagnose), for what the other options can't say",
    )
    add(
        "--args",
        metavar="CODE",
        help="what the class or factory is called with, as between the brackets of a call, with names of the file: "
        '"3, 4, num_heads=2" or "Config(n_head=3)"',
    )
    add("--call", metavar="CODE", help='how to run it, if not by x alone: "lambda m, x: m(x)[0]"')
    add(
        "--device",
        choices=("cpu", "cuda", "mps"),
        help="build it on this device whatever device it asks for; it is examined on the CPU in any case",
    )


def _add_input(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--d-in",
        type=int,
        help="width of a token (default: the width of the module's Linears or parameters that it can be run with)",
    )
    add("--batch", type=int, default=2, help="samples in the input (default: %(default)s)")
    add("--tokens", type=int, default=5, help="tokens in a sample (default: %(default)s)")
    add("--x", metavar="CODE", help='the input itself: "torch.randn(2, 16, 24)"')
    add("--num-heads", type=int, help="how many heads the code should have")
    add("--num-kv-heads", type=int, help="how many heads of keys and values it should have")
    add("--not-causal", action="store_true", help="every token may see every other one, as in an encoder")
    add("--keep", metavar="CODE", help='who may see whom besides that, True = may: "torch.ones(5, 5).tril() > 0"')


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--json", action="store_true", help="plain data for other programs; a list for several targets")
    add("--sarif", metavar="FILE", help="also write the findings to FILE in SARIF 2.1.0, for code scanning")
    add("--github", action="store_true", help="also print annotations for a pull request on GitHub")


def run(args: argparse.Namespace) -> int:
    """Examine each target, print the reports, and return the status of all."""
    if not args.targets and not args.setup:
        raise CourseError("name what to examine: FILE.py:NAME, FILE.ipynb:NAME, package.module:NAME or --setup FILE.")
    results = list(_results(args))
    if args.json:
        print(as_json(results))
    else:
        reports = [one.report.in_words(not_causal="add --not-causal") for one in results if one.report is not None]
        print("\n\n".join(reports))
    if args.github:
        print(*github_lines(results), sep="\n")
    if args.sarif:
        Path(args.sarif).write_text(json.dumps(sarif(results), indent=2) + "\n", encoding="utf-8")
    return overall(results)


def _results(args: argparse.Namespace) -> Iterator[Result]:
    """Yield the result of each target; a lone one that can't be opened raises."""
    told = [(target, False) for target in args.targets] + [(file, True) for file in args.setup]
    reported = args.sarif or args.github
    for target, is_setup in told:
        notes: list[str] = []
        try:
            with redirect_stdout(sys.stderr):  # the output of the file is not part of the report
                report = _report_of_setup(target, args, notes) if is_setup else _report(target, args, notes)
        except CourseError as error:
            if len(told) == 1 and not reported:
                raise
            print(f"course doctor: {target}: {error}", file=sys.stderr)
            yield Result(target, error=str(error), notes=tuple(notes))
        else:
            yield Result(target, report, notes=tuple(notes))


def _report(typed: str, args: argparse.Namespace, notes: list[str]) -> Any:
    import torch

    target = split(typed)
    print(f"course doctor: running {target.name} of {target.place} (importing a file runs it)", file=sys.stderr)
    opened = open_target(target, args.args, args.call, args.device, names=(args.x, args.keep))
    _say(opened.notes, notes)
    keep = None if args.keep is None else evaluate("--keep", args.keep, opened.module)
    if args.x is None:
        x = torch.randn(*_sizes(opened, target.name, args), generator=torch.Generator().manual_seed(0))
    else:
        x = evaluate("--x", args.x, opened.module)
    if opened.call is None:
        opened = _with_guessed_call(opened, x, not args.not_causal, notes)
    options = {"num_heads": args.num_heads, "num_kv_heads": args.num_kv_heads, "keep": keep}
    return _diagnosed(opened, x, {"causal": not args.not_causal, **options})


def _with_guessed_call(opened: Opened, x: Any, causal: bool, notes: list[str]) -> Opened:
    if not hasattr(x, "shape") or len(x.shape) != 3:
        return opened
    text = guess_call(opened.code, causal, lambda call: runs(opened.code, call, *x.shape))
    if text is None:
        return opened
    _say((f"called as {text.removeprefix('lambda m, x: ')}, a guess: give --call for your own",), notes)
    return replace(opened, call=evaluate("--call", text, opened.module))


def _report_of_setup(file: str, args: argparse.Namespace, notes: list[str]) -> Any:
    print(f"course doctor: running build() of {file}", file=sys.stderr)
    opened, x, options = open_setup(file, args.device)
    _say(opened.notes, notes)
    return _diagnosed(opened, x, options)


def _diagnosed(opened: Opened, x: Any, options: dict[str, Any]) -> Any:
    from course_lib.diagnosis import diagnose

    try:
        return diagnose(opened.code, x, call=opened.call, **options)
    except (TypeError, ValueError) as error:
        raise CourseError(str(error)) from None


def _say(said: tuple[str, ...], notes: list[str]) -> None:
    """Print the notes on the side and keep them for the data."""
    notes += said
    for note in said:
        print(f"course doctor: {note}", file=sys.stderr)


def _sizes(opened: Opened, name: str, args: argparse.Namespace) -> tuple[int, int, int]:
    for option, number in (("--d-in", args.d_in), ("--batch", args.batch), ("--tokens", args.tokens)):
        if number is not None and number < 1:
            raise CourseError(f"{option} must be at least 1, got {number}.")
    d_in = args.d_in or width_of(opened.code, opened.call, args.batch, args.tokens)
    if d_in is None:
        reason = why_not(opened.code, opened.call, args.batch, args.tokens, ANY)
        raise CourseError(
            f"nothing in {name} says how wide a token is, and the code does not run with a width of {ANY} ({reason}): "
            f"give --d-in, --call if it needs more than x, or --args if it is a function that builds a module."
        )
    return args.batch, args.tokens, d_in
