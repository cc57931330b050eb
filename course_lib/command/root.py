"""What the command works with: the clone, found from the current folder, or what pip installed; and its packages."""

import importlib.util
import os
import sys
import tomllib
from pathlib import Path

from course_lib.about import DISTRIBUTION, repository_address


class CourseError(Exception):
    """The command can't be carried out; the message is one sentence that says why and what to do."""


def repository(start: Path | None = None) -> Path:
    """Walk up from a folder to the one whose pyproject.toml is this course's.

    Raises:
        CourseError: there is none.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        try:
            project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        except (OSError, tomllib.TOMLDecodeError):
            continue
        if project.get("name") == DISTRIBUTION:
            return folder
    raise CourseError(
        f"{start} is not inside a clone of {DISTRIBUTION}, which this command works on: change into the clone, or get "
        f"one with: git clone {repository_address()}"
    )


def install_hint(extra: str) -> str:
    """Return the command that installs an extra of pyproject.toml into this Python."""
    try:
        root = repository()
    except CourseError:
        return f'{sys.executable} -m pip install "{DISTRIBUTION}[{extra}] @ git+{repository_address()}"'
    python, here = Path(sys.executable), Path.cwd()
    shown = os.path.relpath(python, here) if python.is_relative_to(root) else str(python)
    where = "." if here == root else str(root)
    return f'{shown} -m pip install -e "{where}[{extra}]"'


def require(extra: str, *packages: str) -> None:
    """See that the packages of an extra are there before anything begins.

    Raises:
        CourseError: one is missing; the message holds the command that installs it.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise CourseError(f"{package} is needed for this and not installed. Install it with: {install_hint(extra)}")
