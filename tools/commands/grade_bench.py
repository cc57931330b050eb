"""Measure how long grading a class takes, compared with nbgrader on the same notebooks.

It grades classes of 10 to 1000 students and takes about 15 minutes. Use it after a change to grading; --save keeps
the numbers for the book's page on grading.
"""

import argparse
import json

from course_lib.command import CourseError, repository

STORED = "book/grading.json"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", action="store_true", help=f"store the results in {STORED}, which the book shows")


def run(args: argparse.Namespace) -> int:
    """Measure, and print how much faster than nbgrader each class is graded."""
    from tools.performance.grading import measure

    root = repository()
    try:
        measured = measure(root)
    except (ValueError, RuntimeError) as error:
        raise CourseError(str(error)) from None
    for size in measured["classes"]:
        speedup = measured["nbgrader"]["seconds_a_student"] / (size["seconds"] / size["students"])
        megabytes = size["megabytes"].values()
        memory = f"{min(megabytes):.0f} to {max(megabytes):.0f} MB"
        print(f"{size['students']:>6} students: {speedup:.1f} times as fast as nbgrader, {memory}")
    if args.save:
        (root / STORED).write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
        print(f"stored in {STORED}")
    return 0
