"""Find the clone that a command works on, and check the packages that it needs."""

import importlib
import importlib.util
import os
import sys
import tomllib
from pathlib import Path
from types import ModuleType

from course_lib.about import DISTRIBUTION, repository_address


class CourseError(Exception):
    """Raised when a command cannot run; the message gives the reason and the remedy in one sentence."""


def repository() -> Path:
    """Return the clone that the current folder lies in.

    Raises:
        CourseError: the folder is not inside a clone.
    """
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if is_clone(folder):
            return folder
    raise CourseError(
        f"{here} is not inside a clone of {DISTRIBUTION}, which this command works on: change into the clone, or get "
        f"one with: git clone {repository_address()}"
    )


def is_clone(folder: Path) -> bool:
    """Return whether the pyproject.toml of a folder is the course's."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        return False
    return project.get("name") == DISTRIBUTION


def import_tool(name: str) -> ModuleType:
    """Import a module of `tools`, which is used to make the course and exists only in a clone.

    Raises:
        CourseError: this `course_lib` was installed without its clone.
    """
    root = Path(__file__).resolve().parents[2]
    if not is_clone(root):
        raise CourseError(
            f"this needs a clone of {DISTRIBUTION}, not only the installed package: git clone {repository_address()}, "
            "change into it, and run make test, or pip install -e '.[dev]'."
        )
    if str(root) not in sys.path[:1]:
        sys.path.insert(0, str(root))  # before any other package that is called tools
    return importlib.import_module(name)


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
    """Check that packages of an extra are installed, without importing them.

    Raises:
        CourseError: a package is missing; the message holds the command that installs it.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise CourseError(f"{package} is needed for this and not installed. Install it with: {install_hint(extra)}")
