"""Parse FILE.py:NAME, FILE.ipynb:NAME or package.module:NAME."""

import importlib.util
import sys
from pathlib import Path
from typing import NamedTuple

from course_lib.command.clone import CourseError


class Target(NamedTuple):
    """The file or module as it was typed, the name to examine in it, and the path if it is a file."""

    source: str
    name: str
    path: Path | None


def split(target: str) -> Target:
    """Parse a target without running anything.

    Raises:
        CourseError: the target has no such form, or the file or package does not exist.
    """
    source, _, name = target.rpartition(":")
    is_file = source.endswith((".py", ".ipynb"))
    if not name.isidentifier() or not (is_file or all(part.isidentifier() for part in source.split("."))):
        raise CourseError(
            f"{target!r} is not FILE.py:NAME, such as my_attention.py:MultiHeadAttention, FILE.ipynb:NAME or "
            f"package.module:NAME."
        )
    if is_file and not Path(source).is_file():
        raise CourseError(f"there is no file {source}: give its path from {Path.cwd()}.")
    if not is_file:
        _check_module(source)
    return Target(source, name, Path(source).resolve() if is_file else None)


def _check_module(source: str) -> None:
    package = source.split(".")[0]
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if package not in sys.modules and importlib.util.find_spec(package) is None:
        raise CourseError(
            f"there is no module {source}: run this in the folder that holds it, or give the path of its file."
        )
