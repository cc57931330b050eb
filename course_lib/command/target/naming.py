"""FILE.py:NAME or package.module:NAME, taken apart before anything is run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import NamedTuple

from course_lib.command.root import CourseError


class Target(NamedTuple):
    """What to examine: the file or module as it was typed, the name in it, and the file's path if it is a file."""

    place: str
    name: str
    path: Path | None


def split(target: str) -> Target:
    """Take FILE.py:NAME or package.module:NAME apart; nothing is run.

    Raises:
        CourseError: it has another form, or there is no such file or package.
    """
    place, _, name = target.rpartition(":")
    is_file = place.endswith(".py")
    if not name.isidentifier() or not (is_file or all(part.isidentifier() for part in place.split("."))):
        raise CourseError(
            f"{target!r} is not FILE.py:NAME, such as my_attention.py:MultiHeadAttention, or package.module:NAME."
        )
    if is_file and not Path(place).is_file():
        raise CourseError(f"there is no file {place}: give its path from {Path.cwd()}.")
    if not is_file:
        sys.path.insert(0, str(Path.cwd()))
        if place.split(".")[0] not in sys.modules and importlib.util.find_spec(place.split(".")[0]) is None:
            raise CourseError(
                f"there is no module {place}: run this in the folder that holds it, or give the path of its file."
            )
    return Target(place, name, Path(place).resolve() if is_file else None)


def search_last(*folders: Path | None) -> None:
    """Where to look for what is found nowhere else, so that a file of theirs never hides an installed package."""
    sys.path.extend(str(folder) for folder in folders if folder is not None and str(folder) not in sys.path)
