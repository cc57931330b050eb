"""Show how far you are with the exercises: what is passed, how many minutes are left, and what comes next."""

import argparse
from contextlib import chdir
from pathlib import Path

from course_lib.command.root import CourseError
from course_lib.command.start import default_workspace

NAME, HELP = "progress", "show which exercises are passed and what comes next"
OWN_OPTIONS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of one lesson."""
    parser.add_argument("lesson", nargs="?", metavar="NN", help="each exercise of one lesson, such as 01")


def run(args: argparse.Namespace) -> int:
    """Print the table of the workspace that the current folder lies in, else of the clone's own."""
    from course_lib.exercises.workspace import VARIABLE, file_of_progress, is_off
    from course_lib.workspace import MARKER

    if is_off():
        raise CourseError(f"{VARIABLE} is off, so no progress is kept: unset it.")
    folder = Path.cwd() if file_of_progress() else default_workspace()
    if not file_of_progress() and not (folder / MARKER).is_file():
        raise CourseError(
            f"no progress is kept for {Path.cwd()}: change into your workspace, or make one with `course start`."
        )
    from course_lib.exercises import progress

    try:
        with chdir(folder):
            print(progress(args.lesson))
    except ValueError as error:
        raise CourseError(str(error)) from None
    return 0
