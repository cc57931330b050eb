"""Make a week's exercises for a class: the students' notebooks, without solutions, and the record of what they were."""

import argparse
from pathlib import Path

from course_lib.command import CourseError, repository
from course_lib.workspace import course_notebooks


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the release, such as week1")
    parser.add_argument("--lessons", required=True, metavar="NN,NN", help="lessons with exercises, such as 01,02")
    parser.add_argument(
        "--to", required=True, type=Path, metavar="DIR", help="the folder in which a folder NAME is made"
    )
    parser.add_argument(
        "--individual",
        type=Path,
        metavar="ROSTER",
        help="a sheet for each student of this gradebook's export, with questions that no other sheet has",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="ask on each sheet one question whose answer is a sentence; you read it and give the points",
    )
    parser.add_argument(
        "--guesses",
        action="store_true",
        help="ask on each sheet whether you may count the student's guesses of the lesson; the report adds them up",
    )


def run(args: argparse.Namespace) -> int:
    """Write the folder and print what is in it."""
    from course_grader.manifest import MANIFEST
    from course_grader.release import make_release

    lessons = [lesson for lesson in args.lessons.replace(" ", "").split(",") if lesson]
    try:
        asked = {"explain": args.explain, "guesses": args.guesses}
        folder = make_release(_notebooks(), args.name, lessons, args.to, args.individual, **asked)
    except (ValueError, OSError) as error:
        raise CourseError(str(error)) from None
    own = sorted({path.parent for path in folder.glob("*/*.ipynb")})
    if own:
        print(f"for the students: {len(own)} folders in {folder}, from {own[0].name} to {own[-1].name}")
    for path in sorted(folder.glob("*.ipynb")):
        print(f"for the students: {path}")
    print(f"for you:          {folder / MANIFEST}")
    return 0


def _notebooks() -> Path:
    """Return the notebooks of the clone around the current folder, or else those of the installed course."""
    try:
        return repository() / "notebooks"
    except CourseError:
        return course_notebooks()
