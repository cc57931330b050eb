"""Build the web book from the lessons, the catalogue of mistakes and the library's docstrings."""

import argparse
import subprocess
import sys

from course_lib.command.root import repository

NAME, HELP = "book", "build the web book in build/book/html"
OWN_OPTIONS = True
NEEDS = ("book", "sphinx", "myst_nb", "sphinx_book_theme")


def arguments(parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(args: argparse.Namespace) -> int:
    """Build in a process of its own, from the repository's root; 0 only without a warning and a broken link."""
    return subprocess.run([sys.executable, "-m", "book.make"], cwd=repository()).returncode
