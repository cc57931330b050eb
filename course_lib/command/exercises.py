"""Make the learners' exercises from the teacher's solutions: solutions and hidden tests taken out, then run."""

import argparse
import sys

from course_lib.command.root import CourseError, repository

NAME, HELP = "exercises", "make notebooks/exercises from notebooks/solutions (make exercises)"
OWN_OPTIONS = True
NEEDS = ("teach", "nbgrader", "jupytext")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, such as 03_exercises or 03")
    parser.add_argument("--kernel", default="attention-cpu", help="the Jupyter kernel (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the solutions, make the exercises, run these too; a notebook that fails keeps its stored outputs."""
    from course_lib.lessons.discover import SOLUTIONS, find_notebooks
    from course_lib.lessons.kernels import install_kernels, kernels_ready
    from course_lib.lessons.run import LessonFailed, run_lesson
    from course_lib.lessons.student import write_student

    root = repository()
    try:
        solutions = find_notebooks(root, args.names, (SOLUTIONS,))
    except ValueError as error:
        raise CourseError(str(error)) from None
    if not solutions:
        raise CourseError(f"There is no notebook in {root / 'notebooks' / SOLUTIONS}.")
    if not kernels_ready():
        install_kernels()
    failed = 0
    for solution in solutions:
        try:
            for lesson in (solution, write_student(solution)):
                result = run_lesson(lesson, args.kernel)
                print(
                    f"{lesson.label:<28} {result.cells:>3} cells {result.seconds:>6.1f} s  {result.state}", flush=True
                )
        except (LessonFailed, FileNotFoundError, ValueError) as error:
            print(f"FAILED  {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0
