"""Build the web book from the lessons, the catalogue of mistakes and the library's docstrings."""

import argparse
import importlib.util
import subprocess
import sys

from course_lib.command.root import CourseError, repository

NAME, HELP = "book", "build the web book in build/book/html"
OWN_OPTIONS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(args: argparse.Namespace) -> int:
    """Build in a process of its own, from the repository's root; 0 only without a warning and a broken link."""
    if importlib.util.find_spec("sphinx") is None:
        raise CourseError("sphinx, which builds the book, is missing: pip install -e '.[book]', or make book.")
    return subprocess.run([sys.executable, "-m", "book.make"], cwd=repository()).returncode
