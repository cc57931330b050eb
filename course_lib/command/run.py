"""Run lessons top to bottom from their .py, store what they show, and say what changed."""

import argparse
import sys

from course_lib.command.root import CourseError, repository

NAME, HELP = "run", "run lessons top to bottom and store their outputs (make course)"
OWN_OPTIONS = True
NEEDS = ("lessons", "nbclient", "jupytext", "ipykernel")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these lessons, such as 03_wrapper or 03")
    parser.add_argument("--kernel", default="attention-cpu", help="the Jupyter kernel (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a cell may take (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the lessons one after the other; a lesson that fails keeps its stored notebook."""
    from course_lib.lessons.discover import find_notebooks
    from course_lib.lessons.kernels import install_kernels, kernels_ready
    from course_lib.lessons.run import LessonFailed, run_lesson

    root = repository()
    try:
        lessons = find_notebooks(root, args.names)
    except ValueError as error:
        raise CourseError(str(error)) from None
    if not lessons:
        raise CourseError(f"There is no lesson in {root / 'notebooks'}: a lesson is a file such as 00_start_here.py.")
    if not kernels_ready():
        install_kernels()
    failed = 0
    for lesson in lessons:
        try:
            result = run_lesson(lesson, args.kernel, args.timeout)
        except (LessonFailed, FileNotFoundError) as error:
            print(f"FAILED  {error}", file=sys.stderr)
            failed += 1
            continue
        print(f"{lesson.label:<28} {result.cells:>3} cells {result.seconds:>6.1f} s  {result.state}", flush=True)
        for change in result.changes:
            print(f"    {change}")
    return 1 if failed else 0
