"""What `course doctor` and `course scan` share: the options that name targets, inputs and outputs, and the results."""

import argparse
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from .clone import CourseError
from .parallel import in_processes, with_progress
from .results import Result, as_json, github_lines, overall, sarif
from .target import ANY, Opened, evaluate, guess_call, runs, shape_with_width_first, why_not, width_of

Report = Callable[[str, argparse.Namespace, list[str]], Any]


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add what is examined, and how it is built and run."""
    add = parser.add_argument
    of_targets = (
        "the file, notebook (FILE.ipynb:NAME) or package.module, and the class, module, function or factory in it"
    )
    of_setup = "a file whose build() returns (module, x, options of diagnose), for what the other options can't say"
    of_args = "what the class or factory is called with, as between the brackets of a call, with names of the file: "
    of_device = "build it on this device whatever device it asks for; it is examined on the CPU in any case"
    add("targets", nargs="*", metavar="FILE.py:NAME", help=of_targets)
    add("--setup", action="append", default=[], metavar="FILE", help=of_setup)
    add("--args", metavar="CODE", help=of_args + '"3, 4, num_heads=2" or "Config(n_head=3)"')
    add("--call", metavar="CODE", help='how to run it, if not by x alone: "lambda m, x: m(x)[0]"')
    add("--device", choices=("cpu", "cuda", "mps"), help=of_device)


def add_sizes(parser: argparse.ArgumentParser, *, batch: int, tokens: int) -> None:
    """Add the sizes of x, or x itself."""
    add = parser.add_argument
    of_width = "width of a token (default: the width of the module's Linears or parameters that it can be run with)"
    add("--d-in", type=int, help=of_width)
    add("--batch", type=int, default=batch, help="samples in the input (default: %(default)s)")
    add("--tokens", type=int, default=tokens, help="tokens in a sample (default: %(default)s)")
    add("--x", metavar="CODE", help='the input itself: "torch.randn(2, 16, 24)"')
    add("--not-causal", action="store_true", help="every token may see every other one, as in an encoder")


def add_meant(parser: argparse.ArgumentParser) -> None:
    """Add the options that declare an unusual design as intended."""
    add = parser.add_argument
    add("--scale", type=float, help="what dot products are multiplied by, if not 1 / sqrt(head_dim)")
    add("--window", type=int, metavar="TOKENS", help="how many tokens a query may see, itself included")
    add("--not-normalised", action="store_true", help="weights don't sum to 1 on purpose, as with a sigmoid")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the forms of the output."""
    parser.set_defaults(prog=parser.prog)
    add = parser.add_argument
    add("--verbose", action="store_true", help="after each finding, print the rule, the kind and the facts behind it")
    add("--json", action="store_true", help="plain data for other programs; a list for several targets")
    add("--sarif", metavar="FILE", help="also write the findings to FILE in SARIF 2.1.0, for code scanning")
    add("--github", action="store_true", help="also print annotations for a pull request on GitHub")


def examine(args: argparse.Namespace, typed: list[tuple[str, Report]]) -> int:
    """Examine each target, print the reports, and return the status of all.

    Args:
        typed: each target as it was typed, and the function (target, args, notes) that returns its report.
    """
    if not typed:
        raise CourseError("name what to examine: FILE.py:NAME, FILE.ipynb:NAME, package.module:NAME or --setup FILE.")
    alone = len(typed) == 1 and not (args.sarif or args.github)
    work = partial(_result, args, alone)
    pending = in_processes(work, typed, getattr(args, "jobs", 1))
    results = list(with_progress(pending, [target for target, _ in typed], args))
    if args.json:
        print(as_json(results))
    else:
        reports = [result.report for result in results if result.report is not None]
        print("\n\n".join(report.in_words("add --not-causal", verbose=args.verbose) for report in reports))
    if args.github:
        print(*github_lines(results, args.prog), sep="\n", file=sys.stderr if args.json else sys.stdout)
    if args.sarif:
        Path(args.sarif).write_text(json.dumps(sarif(results, args.prog), indent=2) + "\n", encoding="utf-8")
    return overall(results)


def _result(args: argparse.Namespace, alone: bool, typed: tuple[str, Report]) -> Result:
    """Return the result of a target; a lone target that can't be opened raises instead."""
    target, report_of = typed
    notes: list[str] = []
    try:
        with redirect_stdout(sys.stderr), warnings.catch_warnings():  # what the file prints is not part of the report
            if not sys.warnoptions:
                warnings.simplefilter("ignore")  # each would come up many times
            report = report_of(target, args, notes)
    except CourseError as error:
        if alone:
            raise
        say(args, [f"{target}: {error}"])
        return Result(target, error=str(error), notes=tuple(notes))
    return Result(target, report, notes=tuple(notes))


class _Dropped(io.TextIOBase):
    """A stream that discards its text and remembers whether there was any."""

    written = False

    def write(self, text: str) -> int:
        self.written = self.written or bool(text)
        return len(text)


@contextmanager
def quietly(args: argparse.Namespace, notes: list[str]) -> Iterator[None]:
    """Leave out what the code prints, which is run many times here, and say so."""
    printed = _Dropped()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        if printed.written:
            say(args, ["what the code printed while it was examined was left out"], notes)


def with_guessed_call(
    opened: Opened, x: Any, args: argparse.Namespace, notes: list[str], context: Any = None
) -> Opened:
    """Return the target with a guessed call that runs, if it does not run on x and the context alone."""
    from course_lib.diagnosis import Subject, moved_by_the_last

    if not hasattr(x, "shape") or len(x.shape) != 3:
        return opened

    def does_run(call: Any) -> bool:
        return runs(opened.code, call if context is None else _with_context(call, context), *x.shape)

    def moved(call: Any) -> list[float]:
        return moved_by_the_last(Subject(opened.code, call), x.double())

    text = guess_call(opened.code, not args.not_causal, does_run, moved, context is not None)
    if text is None:
        return opened
    say(args, [f"called as {text.partition(': ')[2]}, a guess: give --call for your own"], notes)
    return replace(opened, call=evaluate("--call", text, opened.module))


def _with_context(call: Any, context: Any) -> Callable[[Any, Any], Any]:
    """Return a call of (code, x) that passes the context as well, by default as the second argument."""
    run = call or (lambda code, x, context: code(x, context))
    return lambda code, x: run(code, x, context.to(x.dtype) if context.is_floating_point() else context)


def say(args: argparse.Namespace, sentences: Iterable[str], notes: list[str] | None = None) -> None:
    """Print sentences on stderr, and add them to the notes of the report."""
    for note in sentences:
        print(f"{args.prog}: {note}", file=sys.stderr)
        if notes is not None:
            notes.append(note)


def input_of(opened: Opened, name: str, args: argparse.Namespace, notes: list[str] | None = None) -> Any:
    """Return the input: --x, or random numbers of the sizes that were given or are found."""
    import torch

    if args.x is not None:
        return evaluate("--x", args.x, opened.module)
    try:
        shape = sizes(opened, name, args, notes)
    except CourseError:
        shape = None if args.d_in else shape_with_width_first(opened.code, opened.call, args.batch, args.tokens)
        if shape is None:
            raise
        say(args, [f"given x of the shape {shape}, its width first, a guess: give --x for your own"], notes)
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def sizes(opened: Opened, name: str, args: argparse.Namespace, notes: list[str] | None = None) -> tuple[int, int, int]:
    """Return (batch, token, d_in) of an input that a target takes, and say which it is if the width is a guess.

    Raises:
        CourseError: a size below 1, or a width that nothing tells.
    """
    for option, number in (("--d-in", args.d_in), ("--batch", args.batch), ("--tokens", args.tokens)):
        if number is not None and number < 1:
            raise CourseError(f"{option} must be at least 1, got {number}.")
    d_in = args.d_in or width_of(opened.code, opened.call, args.batch, args.tokens, opened.widths)
    if d_in is None:
        reason = why_not(opened.code, opened.call, args.batch, args.tokens, ANY)
        raise CourseError(
            f"nothing in {name} says how wide a token is, and the code does not run with a width of {ANY} ({reason}): "
            f"give --d-in, --call if it needs more than x, --args if it is a function that builds a module, or --x if "
            f"x has another layout."
        )
    shape = (args.batch, args.tokens, d_in)
    if not args.d_in:
        say(args, [f"x is torch.randn{shape}, its width a guess: give --d-in or --x for your own"], notes)
    return shape
