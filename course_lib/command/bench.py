"""Measure the forms of attention against each other in one run: time, memory, the distance from the limit."""

import argparse

NAME, HELP = "bench", "measure the forms of attention side by side (--list, --quick, --json)"
OWN_OPTIONS = False  # every word after the name is handed on


def arguments(parser: argparse.ArgumentParser) -> None:
    """Take no options here: course_lib.bench reads its own."""


def run(args: argparse.Namespace) -> int:
    """Hand over to course_lib.bench."""
    from course_lib.bench import main

    return main(args.rest)
