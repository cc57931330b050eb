"""Draw the figures of the README and the book from recordings of the real code."""

import argparse

NAME, HELP = "figures", "draw the figures under figures/ again"
OWN_OPTIONS = False  # every word after the name is handed on


def arguments(parser: argparse.ArgumentParser) -> None:
    """Take no options here: course_lib.figures reads its own."""


def run(args: argparse.Namespace) -> int:
    """Hand over to course_lib.figures."""
    from course_lib.figures import main

    return main(args.rest)
