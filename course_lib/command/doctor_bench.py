"""Measure the doctor on the bank of right and wrong modules under tests/bank."""

import argparse
import sys

from course_lib.command.root import CourseError, repository

NAME, HELP = "doctor-bench", "measure how many of a bank of mistakes the doctor finds, names and locates"
OWN_OPTIONS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of files and how much to print."""
    parser.add_argument("names", nargs="*", help="files of the bank, such as masks (default: all)")
    parser.add_argument("--misses", action="store_true", help="also list each case that was not got right")


def run(args: argparse.Namespace) -> int:
    """Print the table; 0 if every goal is met."""
    sys.path.insert(0, str(repository() / "tests"))
    from bank.score import FILES, main

    unknown = [name for name in args.names if name not in FILES]
    if unknown:
        raise CourseError(f"the bank has no file {unknown[0]}; its files are {', '.join(FILES)}.")
    return main(args.names, misses=args.misses)
