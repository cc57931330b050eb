"""Measure how many mistakes the doctor finds, names and locates, on the right and wrong code in tests/diagnosis/bank.

Use it before and after you change the doctor.
"""

import argparse

from course_lib.command import CourseError, repository


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", help="files of the bank, such as masks (default: all)")
    parser.add_argument("--misses", action="store_true", help="also list each case with a wrong report")


def run(args: argparse.Namespace) -> int:
    """Print the table and return 0 if every goal is met."""
    repository()  # because the bank belongs to the doctor's tests
    from tests.diagnosis.bank.score import FILES, main

    unknown = [name for name in args.names if name not in FILES]
    if unknown:
        raise CourseError(f"the bank has no file {unknown[0]}; its files are {', '.join(FILES)}.")
    return main(args.names, misses=args.misses)
