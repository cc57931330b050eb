"""Read the student from the name of a submitted folder or file, as teachers, Moodle and Canvas write it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from .visible_text import escape_hidden

NOTEBOOK_SUFFIX, ZIP_SUFFIX = ".ipynb", ".zip"

# Jane Doe_1234567_assignsubmission_file for a folder; for a file, _01_exercises.ipynb follows
# The display name before the number and the file's name after it are the student's to choose: a folder's name ends with
# Moodle's own words, and in a file's name those must stand only once.
_MOODLE = re.compile(r"(.+_\d+_assignsubmission_file)(?:_(.*))?", re.DOTALL)
ONLINE_TEXT = re.compile(r".+_\d+_assignsubmission_onlinetext(_.*)?", re.DOTALL)  # what students typed into Moodle
# doejane_12345_67890_01_exercises.ipynb, or anon_Xa9bC_67890_01_exercises.ipynb where names are hidden; short numbers
# may mean anything, and no two students may be merged. The first numbers count: the rest is the student's to choose.
_CANVAS = re.compile(r"(\w[\w-]*?)(_LATE)?_(\d{3,})_\d{3,}_(.+)", re.DOTALL | re.IGNORECASE)
_ANONYMOUS = re.compile(r"(anon)(_LATE)?_([^\W_]{5})_\d{3,}_(.+)", re.DOTALL | re.IGNORECASE)
_NUMBERED = re.compile(r"(?:-(?:copy)?(\d{1,6})| ?\((\d{1,6})\))\Z", re.IGNORECASE)  # x-1, x-Copy1, x (1)
_COPIED = re.compile(  # Copy of x, x - Copy, x-Copy1: nobody's name
    r"\A(?:copy of|kopie von|copie de|copia de) +(?=.)"
    r"|(?<=.)(?: - (?:copy|kopie|copie|copia)(?: \(\d{1,6}\))?|-copy\d{1,6})\Z",
    re.IGNORECASE,
)
_WITH_SHEET = re.compile(r"(.+?)[\s_-]+\d\d_exercises(?:-\d{1,6}| ?\(\d{1,6}\))?", re.IGNORECASE)  # ann_01_exercises


@dataclass(frozen=True)
class SubmissionName:
    """What the name of a submitted folder or file says.

    Attributes:
        student: The name to grade under: "Jane Doe_1234567_assignsubmission_file" with Moodle, and "doejane_12345"
            with Canvas, because names alone are not unique.
        file: The name of the file, without the prefix of Moodle or Canvas.
        marked_late: Whether Canvas marked it late.
        from_moodle, from_canvas: Whether Moodle or Canvas named it.
    """

    student: str
    file: str
    marked_late: bool = False
    from_moodle: bool = False
    from_canvas: bool = False

    @property
    def from_platform(self) -> bool:
        return self.from_moodle or self.from_canvas


def parse_submission_name(name: str, is_folder: bool) -> SubmissionName | None:
    """Read the name of a folder or file at the top level of a class's submissions; None if it is not a hand-in."""
    if (match := _MOODLE.fullmatch(name)) and not is_folder and match[1].count("_assignsubmission_") > 1:
        return SubmissionName(_student(name), name, from_moodle=True)  # whole: it is in no roster
    if match:
        return SubmissionName(_student(match[1]), match[2] or name, from_moodle=True)
    if ONLINE_TEXT.fullmatch(name):
        return None
    if not is_folder and (match := _ANONYMOUS.fullmatch(name) or _CANVAS.fullmatch(name)):
        student = _student(f"{match[1]}_{match[3]}")
        return SubmissionName(student, match[4], marked_late=bool(match[2]), from_canvas=True)
    for suffix in (NOTEBOOK_SUFFIX, ZIP_SUFFIX):
        if name.lower().endswith(suffix):
            return SubmissionName(_student(name[: -len(suffix)]), name)
    return SubmissionName(_student(name), name) if is_folder else None


def original_and_copy(name: str) -> tuple[str, int]:
    """Return the notebook that a file is a copy of, and which copy: "a/01_ex-2.ipynb" gives ("01_ex.ipynb", 2)."""
    stem, dot, suffix = name.rpartition("/")[2].rpartition(".")
    copy = _NUMBERED.search(stem)
    original = _COPIED.sub("", stem[: copy.start()] if copy else stem)
    return f"{original}{dot}{suffix}", int(copy[1] or copy[2]) if copy else int(original != stem)


def unambiguous_names(names: Iterable[SubmissionName]) -> dict[str, str]:
    """Map each student as named to the name that the student is graded under.

    Names are one student's if they differ only in case and blanks, in the sheet's name after the student's, or in what
    makes a copy: with a number, as in "ann (1)", if there is "ann", too.
    """
    persons = {name.student: name.student if name.from_platform else _person(name.student) for name in names}
    first: dict[str, str] = {}  # in small letters -> as it is written
    for person in sorted(persons.values()):
        first.setdefault(person.lower(), person)
    for student, person in persons.items():
        copy = _NUMBERED.search(person)
        base = person[: copy.start()].lower() if copy and copy[2] else ""
        persons[student] = first[base if base in first else person.lower()]
    return persons


def _person(stem: str) -> str:
    plain = _COPIED.sub("", stem)
    with_sheet = _WITH_SHEET.fullmatch(plain)
    return " ".join((with_sheet[1] if with_sheet else plain).split())


def _student(name: str) -> str:
    # Never cut: two names must not become one.
    return escape_hidden(unicodedata.normalize("NFC", name), limit=len(name) + 1)
