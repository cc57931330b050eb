"""Build the web book in build/book/html, from the lessons, the catalogue of mistakes and the library's docstrings.

Use it to read the course as web pages, or to check a page that you have changed: a warning or a link that leads nowhere
fails it.
"""

import argparse
import subprocess
import sys

from course_lib.command import repository


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options: the command has none."""


def run(args: argparse.Namespace) -> int:
    """Build in a separate process, from the repository's root; return 0 only without a warning or a broken link."""
    return subprocess.run([sys.executable, "-m", "tools.book"], cwd=repository()).returncode
