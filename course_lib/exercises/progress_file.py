"""The file that keeps progress: small, readable, written whole, and never thrown away where it is damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from course_lib.lessons.whole import write_text


@dataclass(frozen=True)
class Mark:
    """How far a learner is with one exercise. Once it is done, nothing about it changes.

    Attributes:
        done: whether it was passed at least once.
        attempts: checks of code that was new, up to the first that passed.
        first_passed: when that was, as ISO 8601.
    """

    done: bool = False
    attempts: int = 0
    first_passed: str | None = None

    def then(self, later: Mark) -> Mark:
        """This mark after what came later was added."""
        return self if self.done else Mark(later.done, self.attempts + later.attempts, later.first_passed)


FIELDS = tuple(vars(Mark()))


def read(path: Path) -> tuple[dict[str, Mark], bool]:
    """Return the marks that can be read, by the names of the exercises, and whether any could not.

    Raises:
        OSError: the file is there and can't be opened.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["exercises"]
    except FileNotFoundError:
        return {}, False
    except (ValueError, RecursionError, LookupError, TypeError):
        return {}, True
    if not isinstance(entries, dict):
        return {}, True
    good = {name: Mark(*map(entry.get, FIELDS)) for name, entry in entries.items() if _is_mark(entry)}
    return good, len(good) < len(entries)


def write(path: Path, marks: dict[str, Mark], *, damaged: bool = False) -> Path | None:
    """Replace the file.

    Args:
        path: of the file.
        marks: all that it shall hold.
        damaged: whether what is there now has to be kept beside it.

    Returns:
        The copy of a damaged file, or None.

    Raises:
        OSError: it can't be written, or is read-only; then it is as it was.
    """
    # A new file could take the place of a read-only one, but whoever made it read-only meant it.
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    aside = _copied_aside(path) if damaged else None
    entries = {name: vars(mark) for name, mark in marks.items()}
    write_text(path, json.dumps({"exercises": entries}, indent=1) + "\n")
    return aside


def _copied_aside(path: Path) -> Path:
    names = (f"{path.name}.damaged{f'-{number}' if number > 1 else ''}" for number in count(1))
    aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    return Path(shutil.copyfile(path, aside))


def _is_mark(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() >= set(FIELDS)
        and isinstance(entry["done"], bool)
        and type(entry["attempts"]) is int
        and entry["attempts"] >= 0
        and isinstance(entry["first_passed"], str | None)
    )
