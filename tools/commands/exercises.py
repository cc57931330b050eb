"""Make the notebooks of the exercises: the teacher's from course_lib/exercises, and the learners' without the answers.

Use it after you have changed an exercise. Both the solutions and the exercises are run, so that
each shows what its cells print; a notebook that fails keeps its stored outputs.
"""

import argparse

from course_lib.command import repository
from tools.notebooks import SOLUTIONS, write_solutions, write_student

from .run import find_lessons, run_all


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, such as 03_exercises or 03")
    parser.add_argument("--kernel", default="attention-cpu", help="the Jupyter kernel (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the solutions, make the exercises and run these; return 1 if a notebook failed."""
    root = repository()
    write_solutions(root)
    return run_all(find_lessons(root, args.names, SOLUTIONS), args.kernel, write_student)
