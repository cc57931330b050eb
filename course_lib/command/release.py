"""Make a week's exercises for a class: the students' notebooks, without solutions, and the record of what they were."""

import argparse
from pathlib import Path

from course_lib.command.root import CourseError, repository

NAME, HELP = "release", "make a week's exercises for a class (--lessons 01,02 --to DIR; in a clone)"
OWN_OPTIONS = True
NEEDS = ("teach", "nbgrader", "jupytext")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the release, such as week1")
    parser.add_argument("--lessons", required=True, metavar="NN,NN", help="lessons with exercises, such as 01,02")
    parser.add_argument("--to", required=True, type=Path, metavar="DIR", help="the folder that gets a folder NAME")


def run(args: argparse.Namespace) -> int:
    """Write the folder and say what is in it."""
    from course_lib.classroom.record import FILE
    from course_lib.classroom.release import release

    lessons = [lesson for lesson in args.lessons.replace(" ", "").split(",") if lesson]
    try:
        folder = release(repository(), args.name, lessons, args.to)
    except (ValueError, OSError) as error:
        raise CourseError(str(error)) from None
    for path in sorted(folder.glob("*.ipynb")):
        print(f"for the students: {path}")
    print(f"for you:          {folder / FILE}")
    return 0
