"""Run lessons, exercises and solutions from their sources, top to bottom, and store the outputs in the notebooks.

Use it after you have changed a lesson, or library code that lessons use: it prints which stored outputs changed and
how. A notebook that fails keeps what is stored. `course test` only compares and stores nothing.
"""

import argparse
import sys

from course_lib.command import CourseError, ensure_kernels, repository
from tools.notebooks import Lesson, LessonFailed, choose, find_notebooks, run_lesson


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these lessons, such as 03_wrapper or 03")
    parser.add_argument("--kernel", default="attention-cpu", help="the Jupyter kernel (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the lessons one after the other; return 1 if one of them failed."""
    return run_all(choose_lessons(find_notebooks(repository()), args.names), args.kernel)


def choose_lessons(there: list[Lesson], names: list[str]) -> list[Lesson]:
    """Return the notebooks with one of these names, or all of them if there are no names.

    Raises:
        CourseError: A name matches no notebook.
    """
    try:
        return choose(there, names)
    except ValueError as error:
        raise CourseError(str(error)) from None


def run_all(lessons: list[Lesson], kernel: str) -> int:
    """Run each notebook and print what changed; return 1 if one of them failed.

    Raises:
        CourseError: There is no notebook.
    """
    if not lessons:
        raise CourseError("There is no lesson in the folder notebooks: a lesson is a file such as 00_start_here.py.")
    ensure_kernels()
    failed = 0
    for lesson in lessons:
        try:
            run_one(lesson, kernel)
        except (LessonFailed, FileNotFoundError, ValueError) as error:
            print(f"FAILED  {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


def run_one(lesson: Lesson, kernel: str) -> None:
    """Run a notebook and print a line for it, and one for each cell whose outputs changed."""
    result = run_lesson(lesson, kernel)
    print(f"{lesson.label:<28} {result.cells:>3} cells {result.seconds:>6.1f} s  {result.state}", flush=True)
    for change in result.changes:
        print(f"    {change}")
