"""Time the forms of attention against each other in one run and print the ratios."""

import argparse

NAME, HELP = "bench", "time the forms of attention side by side (--quick, --json)"
OWN_OPTIONS = False  # every word after the name is handed on


def arguments(parser: argparse.ArgumentParser) -> None:
    """Take no options here: course_lib.bench reads its own."""


def run(args: argparse.Namespace) -> int:
    """Hand over to course_lib.bench."""
    from course_lib.bench import main

    return main(args.rest)
