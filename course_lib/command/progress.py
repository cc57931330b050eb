"""Show how far you are with the exercises: what is passed, how many minutes are left, and what comes next."""

import argparse

from course_lib.command.root import CourseError

NAME, HELP = "progress", "show which exercises are passed and what comes next"
OWN_OPTIONS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of one lesson."""
    parser.add_argument("lesson", nargs="?", metavar="NN", help="each exercise of one lesson, such as 01")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from course_lib.exercises.workspace import VARIABLE, current_folder, file_of_progress, is_off

    if is_off():
        raise CourseError(f"{VARIABLE} is off, so no progress is kept: unset it.")
    if file_of_progress() is None:
        raise CourseError(
            f"no progress is kept for {current_folder()}: change into your workspace, or make one with `course start`."
        )
    from course_lib.exercises import progress

    try:
        print(progress(args.lesson))
    except ValueError as error:
        raise CourseError(str(error)) from None
    return 0
