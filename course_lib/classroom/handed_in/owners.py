"""Whose is it? The student in the name of a folder or file, as teachers make them and as Moodle and Canvas do."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from course_lib.classroom.handed_in.unreadable import shown

NOTEBOOK, ZIP = ".ipynb", ".zip"

# Jane Doe_1234567_assignsubmission_file, a folder, or with _01_exercises.ipynb behind it, a file
_MOODLE = re.compile(r"(.+?_\d+_assignsubmission_)(?:file|onlinetext)(?:_(.*))?", re.DOTALL)
# doejane_12345_67890_01_exercises.ipynb; short numbers may be anybody's, and nobody is to be merged with a neighbour
_CANVAS = re.compile(r"([^\W_]+)(_LATE)?_(\d{3,})_\d{3,}_(.+)", re.DOTALL)
_COPY = re.compile(r"(.*?)(?:-(\d{1,6})| ?\((\d{1,6})\))?", re.DOTALL)  # 01_exercises-1, 01_exercises (1)


@dataclass(frozen=True)
class Owner:
    """Who handed a folder or file in.

    Attributes:
        student: the name to grade under: "Jane Doe_1234567_assignsubmission_file" with Moodle, and with Canvas
            "doejane_12345", since names alone repeat.
        name: of the file, without what Moodle or Canvas put before it.
        marked_late: whether Canvas says so.
        by_moodle: whether Moodle named it.
    """

    student: str
    name: str
    marked_late: bool = False
    by_moodle: bool = False


def owner(name: str, folder: bool) -> Owner | None:
    """Read the student from a name at the top of what was handed in; None for a file that is no student's.

    Args:
        name: of the folder or file.
        folder: whether it is a folder.
    """
    if match := _MOODLE.fullmatch(name):
        return Owner(_student(f"{match[1]}file"), match[2] or name, by_moodle=True)
    if not folder and (match := _CANVAS.fullmatch(name)):
        return Owner(_student(f"{match[1]}_{match[3]}"), match[4], marked_late=bool(match[2]))
    for suffix in (NOTEBOOK, ZIP):
        if name.lower().endswith(suffix):
            return Owner(_student(name[: -len(suffix)]), name)
    return Owner(_student(name), name) if folder else None


def sheet_name(name: str) -> tuple[str, int]:
    """The sheet that a file is a copy of, and which copy: "a/01_exercises-2.ipynb" is ("01_exercises.ipynb", 2)."""
    stem, dot, suffix = name.rpartition("/")[2].rpartition(".")
    copy = _COPY.fullmatch(stem)
    return f"{copy[1]}{dot}{suffix}", int(copy[2] or copy[3] or 0)


def _student(name: str) -> str:
    return shown(unicodedata.normalize("NFC", name), limit=len(name) + 1)  # never cut: two names must not become one
