"""Run lessons, exercises and solutions from their .py files, top to bottom, and store the outputs in the notebooks.

Use it after you have changed a lesson, or library code that lessons use: it prints which stored outputs changed and
how. A notebook that fails keeps what is stored. `course test` only compares and stores nothing.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from course_lib.command import CourseError, ensure_kernels, repository
from tools.notebooks import Lesson, LessonFailed, find_notebooks, run_lesson


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these lessons, such as 03_wrapper or 03")
    parser.add_argument("--kernel", default="attention-cpu", help="the Jupyter kernel (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the lessons one after the other; return 1 if one of them failed."""
    return run_all(find_lessons(repository(), args.names), args.kernel)


def find_lessons(root: Path, names: list[str], *folders: str) -> list[Lesson]:
    """List the notebooks of these names, in some of the folders if any are given.

    Raises:
        CourseError: A name matches no notebook.
    """
    try:
        return find_notebooks(root, names, folders) if folders else find_notebooks(root, names)
    except ValueError as error:
        raise CourseError(str(error)) from None


def run_all(lessons: list[Lesson], kernel: str, derive: Callable[[Lesson], Lesson] | None = None) -> int:
    """Run each notebook and, if `derive` is given, the notebook that it derives; print what changed.

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
            if derive is not None:
                run_one(derive(lesson), kernel)
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
