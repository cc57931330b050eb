"""Measure grading: seconds a student beside nbgrader on the same notebooks, and how that grows with the class."""

import argparse
import json
import os

from course_lib.command.root import CourseError, repository

NAME, HELP = "grade-bench", "measure how fast a class is graded, beside nbgrader"
OWN_OPTIONS = True
NEEDS = ("teach", "distributed", "safetensors", "jinja2", "tqdm", "jupytext")
STORED = "book/grading.json"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sizes and where the numbers go."""
    add = parser.add_argument
    add("--sizes", default="10,30,100,300,1000", metavar="N,N", help="of the classes (default: %(default)s)")
    add("--beside", type=int, default=10, metavar="N", help="students that nbgrader grades (default: %(default)s)")
    add("--workers", type=int, metavar="N", help="processes (default: one a core)")
    add("--save", action="store_true", help=f"store the numbers in {STORED}, which the book shows")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    from course_lib.classroom.speed import measure

    try:
        sizes = sorted({int(size) for size in args.sizes.split(",")})
    except ValueError:
        raise CourseError(f"--sizes {args.sizes!r} is no list of numbers, such as 10,100.") from None
    root = repository()
    try:
        found = measure(root, sizes, args.beside, args.workers or os.cpu_count() or 1)
    except (ValueError, RuntimeError) as error:
        raise CourseError(str(error)) from None
    for one in found["classes"]:
        times = found["nbgrader"]["seconds_a_student"] / (one["seconds"] / one["students"])
        megabytes = one["megabytes"].values()
        held = f"{min(megabytes):.0f} to {max(megabytes):.0f} MB"
        print(f"{one['students']:>6} students: {times:.1f} times nbgrader's pace, {held}")
    if args.save:
        (root / STORED).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"stored in {STORED}")
    return 0
