"""Save a clickable recording of a file's code: one page that steps through a run and follows each number.

NAME is a class, which is built with --args; a module; a function of x; or a function that returns a module. Importing
a file runs it, and so does building the class: name only code that you would run yourself.
"""

import argparse
import copy
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from .clone import CourseError
from .examination import add_sizes, add_targets, input_of, say, with_guessed_call
from .target import Opened, open_setup, open_target, split

EXAMPLES = """\
examples:
  course picture my_attention.py:MultiHeadAttention --args "3, 4, num_heads=2"
  course picture lesson.ipynb:MultiHeadAttention --words "Dream big and work for it" --out mine.html
  course picture model.py:Block --args "Config(width=12)" --call "lambda m, x: m(x)[0]"

The exit status is 0 if the page shows the whole run, 1 if the code raised an error, up to which the page shows it, and
2 if the code could not be opened.
"""

NO_GRADIENT = "does not require grad"  # in what PyTorch says where a gradient is asked for without one


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target, its input and the page's name."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.set_defaults(prog=parser.prog)
    add_targets(parser)
    add_sizes(parser, batch=1, tokens=6)
    add = parser.add_argument
    add("--words", help='labels of the tokens, with blanks between them: "Dream big and work for it"')
    add("--out", metavar="FILE", help="the page to write (default: NAME.html in this folder)")


def run(args: argparse.Namespace) -> int:
    """Record the target's run, write the page, and say where it is."""
    if len(args.targets) + len(args.setup) != 1:
        raise CourseError("name one thing to draw: FILE.py:NAME, FILE.ipynb:NAME, package.module:NAME or --setup FILE.")
    words = args.words.split() if args.words else None
    args.tokens = len(words) if words else args.tokens
    notes: list[str] = []
    with redirect_stdout(sys.stderr):  # the output of the file is not part of the answer
        opened, x, name = _opened(args, notes)
    with redirect_stdout(sys.stderr):
        recording, error = _recorded(opened, x, name)
    try:
        page = recording.save_page(args.out or f"{name}.html", words=words, title=name)
    except (ValueError, OSError) as refused:
        raise CourseError(f"--out: {refused}") from None
    print(f"{page}: {len(recording.all_steps)} steps, {page.stat().st_size / 1000:.0f} kB; open it in a browser")
    if error is not None:
        print(f"{args.prog}: the code raised {type(error).__name__}: {error}", file=sys.stderr)
    return 0 if error is None else 1


def _recorded(opened: Opened, x: Any, name: str) -> tuple[Any, Exception | None]:
    """Return the recording and the error that ended it; with gradients only if the code asks for them.

    Without them it runs as in use, also where it writes into its parameters or into `out`. Code that asks for gradients
    runs again as it was before.
    """
    import torch

    before = copy.deepcopy(opened.code) if isinstance(opened.code, torch.nn.Module) else opened.code
    with torch.no_grad():
        recording, error = _run(opened.code, opened.call, x)
    if isinstance(error, RuntimeError) and NO_GRADIENT in str(error):
        recording, error = _run(before, opened.call, x)
    if recording is None:
        raise CourseError(f"{name} can't be recorded: {error}") from error
    return recording, error


def _run(code: Any, call: Any, x: Any) -> tuple[Any, Exception | None]:
    from course_lib.recorder import record

    try:
        return (record(code, x) if call is None else record(lambda x: call(code, x), x)), None
    except Exception as raised:
        return getattr(raised, "recording", None), raised


def _opened(args: argparse.Namespace, notes: list[str]) -> tuple[Opened, Any, str]:
    if args.setup:
        say(args, [f"running build() of {args.setup[0]}"])
        opened, x, _ = open_setup(args.setup[0], args.device)
        return opened, x, Path(args.setup[0]).stem
    target = split(args.targets[0])
    say(args, [f"running {target.name} of {target.source} (importing a file runs it)"])
    opened = open_target(target, args.args, args.call, args.device, names=(args.x,))
    say(args, opened.notes, notes)
    x = input_of(opened, target.name, args)
    return (opened if opened.call else with_guessed_call(opened, x, args, notes)), x, target.name
