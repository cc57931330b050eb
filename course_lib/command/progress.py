"""Show your progress with the exercises: which are passed, how many minutes are left, and what comes next.

Run it in your copy of the notebooks (my_course) or in the clone; with a lesson's number it lists each exercise of it.
"""

import argparse
from contextlib import chdir
from pathlib import Path

from .clone import CourseError
from .start import default_workspace


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of one lesson."""
    parser.add_argument("lesson", nargs="?", metavar="NN", help="each exercise of one lesson, such as 01")


def run(args: argparse.Namespace) -> int:
    """Print the table of the workspace that the current folder lies in, or else of the clone's own workspace."""
    from course_lib.exercises import PROGRESS_VARIABLE, progress, progress_is_off, progress_path
    from course_lib.workspace import MARKER

    if progress_is_off():
        raise CourseError(f"{PROGRESS_VARIABLE} is off, so no progress is kept: unset it.")
    folder = Path.cwd() if progress_path() else default_workspace()
    if not progress_path() and not (folder / MARKER).is_file():
        raise CourseError(
            f"no progress is kept for {Path.cwd()}: change into your workspace, or make one with `course start`."
        )
    try:
        with chdir(folder):
            print(progress(args.lesson))
    except ValueError as error:
        raise CourseError(str(error)) from None
    return 0
