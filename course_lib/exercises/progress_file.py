"""Read and write the file that keeps progress; it is replaced atomically and backed up if it is damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from course_lib.atomic_file import write_text


@dataclass(frozen=True)
class ExerciseStatus:
    """How far a learner is with one exercise. Once it is passed, its status does not change.

    Attributes:
        done: whether it was passed at least once.
        attempts: number of checks of new code, up to the first that passed.
        first_passed: time of that check, as ISO 8601.
    """

    done: bool = False
    attempts: int = 0
    first_passed: str | None = None

    def followed_by(self, later: ExerciseStatus) -> ExerciseStatus:
        """Return this status with later attempts added."""
        return self if self.done else ExerciseStatus(later.done, self.attempts + later.attempts, later.first_passed)


FIELDS = tuple(vars(ExerciseStatus()))


def read(path: Path) -> tuple[dict[str, ExerciseStatus], bool]:
    """Return each readable status by the name of its exercise, and whether the file is damaged.

    Raises:
        OSError: the file exists and can't be opened.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["exercises"]
    except FileNotFoundError:
        return {}, False
    except (ValueError, RecursionError, LookupError, TypeError):
        return {}, True
    if not isinstance(entries, dict):
        return {}, True
    good = {name: ExerciseStatus(*map(entry.get, FIELDS)) for name, entry in entries.items() if _is_status(entry)}
    return good, len(good) < len(entries)


def write(path: Path, statuses: dict[str, ExerciseStatus], *, damaged: bool = False) -> Path | None:
    """Replace the file.

    Args:
        path: path of the file.
        statuses: the new content.
        damaged: whether a backup of the current file is needed.

    Returns:
        The backup of a damaged file, or None.

    Raises:
        OSError: it can't be written, or is read-only; it is then unchanged.
    """
    # A new file could replace a read-only file, but somebody made it read-only on purpose.
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    backup = _back_up(path) if damaged else None
    entries = {name: vars(status) for name, status in statuses.items()}
    write_text(path, json.dumps({"exercises": entries}, indent=1) + "\n")
    return backup


def _back_up(path: Path) -> Path:
    names = (f"{path.name}.damaged{f'-{number}' if number > 1 else ''}" for number in count(1))
    backup = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    return Path(shutil.copyfile(path, backup))


def _is_status(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() >= set(FIELDS)
        and isinstance(entry["done"], bool)
        and type(entry["attempts"]) is int
        and entry["attempts"] >= 0
        and isinstance(entry["first_passed"], str | None)
    )
