"""Make the notebooks of the exercises from course_lib/exercises: the solutions, and the sheets without the answers.

Use it after you have changed an exercise. Both the solutions and the exercises are run, so that
each shows what its cells print; a notebook that fails keeps its stored outputs.
"""

import argparse

from course_lib.command import repository
from tools.notebooks import generated_notebooks

from .run import choose_lessons, run_all


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, such as 03_exercises or 03")
    parser.add_argument("--kernel", default="attention-cpu", help="the Jupyter kernel (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Make the solutions and the exercises and run them; return 1 if a notebook failed."""
    return run_all(choose_lessons(generated_notebooks(repository()), args.names), args.kernel)
