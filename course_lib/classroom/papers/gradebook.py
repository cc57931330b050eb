"""The marks of a class as tables: one that Canvas and Moodle import, and one with every detail."""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from course_lib.classroom.marks import Graded
from course_lib.classroom.papers.feedback import FOLDER, looked_at, page_name
from course_lib.classroom.papers.page import number, visible
from course_lib.classroom.record import Record

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")  # what its importer wants first, in this order
WHOLE = {"id", "sis user id", "sis login id", "integration id", "student", "full name", "name"}
WHOLE |= {"email address", "email", "username", "id number", "identifier"}
FIRST, LAST = {"first name", "firstname"}, {"last name", "lastname"}  # name a student only together
NAMES = WHOLE | FIRST | LAST
SHARED = {"section", "root account"}  # Canvas wants them back; they name nobody
POINTS_ROW = "Points Possible"  # what stands in Canvas's row about the assignments
BY_HAND = "enter the points by hand"
MOST_NAMES = 20  # in one sentence
_MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_.*", re.DOTALL)
_CANVAS = re.compile(r"[^\W_]+(?:_late)?_(?P<number>\d{3,})(?:_\d{3,}_.*)?", re.DOTALL | re.IGNORECASE)


def write_gradebook(graded: Sequence[Graded], record: Record, to: Path, roster: Path | None = None) -> list[str]:
    """Write grades.csv, for Canvas or Moodle, and exercises.csv, with all details.

    With a roster, grades.csv has its rows in its order. Who handed in nothing keeps the cell that the roster has,
    mostly an empty one: no grade, which is not 0. Both files are UTF-8 with a byte order mark, which Canvas, Moodle
    and spreadsheets read, and each appears whole or not at all.

    Args:
        graded: everybody who handed in.
        record: the release; its name is the column of the points.
        to: the folder for both files.
        roster: Canvas's gradebook export, or Moodle's of the participants or grades; any CSV with a header.

    Returns:
        Sentences for the teacher: who handed in nothing, who is not in the roster, who can't be told apart.

    Raises:
        ValueError: a roster that can't be read, that names nobody, or that has the release's column twice.
    """
    if roster is None:
        grades, said = _without_roster(graded, record)
    else:
        grades, said = _with_roster(graded, record, roster)
    texts = {"grades.csv": _as_csv(grades), "exercises.csv": _as_csv(_details(graded, record))}
    to.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        part = to / f"{name}.part"
        try:
            part.write_text(text, encoding="utf-8-sig", newline="")
            os.replace(part, to / name)
        finally:
            part.unlink(missing_ok=True)
    return said


def identities(student: str) -> tuple[str, ...]:
    """All that the name of a submission may mean in a roster, the most specific first.

    Moodle names a folder "Jane Doe_1234567_assignsubmission_file". Canvas begins a file with "doejane_12345_67890_",
    of which `find_submissions` leaves "doejane_12345"; the number is the student's. The run-together name is left out:
    it is in no roster, and may look like somebody else's login.

    Args:
        student: the name of the folder or file as it was handed in.

    Example:
        >>> identities("Jane Doe_1234567_assignsubmission_file")
        ('Participant 1234567', 'Jane Doe', 'Jane Doe_1234567_assignsubmission_file')
    """
    if moodle := _MOODLE.fullmatch(student):
        found = [f"Participant {moodle['number']}", moodle["name"], student]
    elif canvas := _CANVAS.fullmatch(student):
        found = [student, canvas["number"]]
    else:
        found = [student, student.replace("_", " ")]
    return tuple(dict.fromkeys(one for one in found if one != "Participant"))  # so called where names are hidden


def _without_roster(graded: Sequence[Graded], record: Record) -> tuple[list[list[str]], list[str]]:
    rows = [[*CANVAS, record.release]]
    said = ["grades.csv names students as their submissions do: give --roster, Canvas's or Moodle's own export."]
    for one in graded:
        name = identities(one.student)[-2] if _MOODLE.fullmatch(one.student) else one.student
        canvas = _CANVAS.fullmatch(one.student)
        if POINTS_ROW in name:
            said.append(f'"{_line(one.student)}" is not in grades.csv: Canvas takes such a row for no student.')
        else:
            rows.append([_safe(name), canvas["number"] if canvas else "", "", _safe(name), "", number(one.points)])
    return rows, said


def _with_roster(graded: Sequence[Graded], record: Record, roster: Path) -> tuple[list[list[str]], list[str]]:
    header, rows = _read(roster)
    own = [at for at, name in enumerate(header) if re.fullmatch(rf"{re.escape(record.release)}( \(\d+\))?", name)]
    if len(own) > 1:
        raise ValueError(f"roster is {roster}, which has {len(own)} columns {record.release}: remove all but one.")
    canvas = "Student" in header or "LastName" in header
    about = {at for at, row in enumerate(rows) if canvas and POINTS_ROW in row[0]}
    names = [set() if at in about else _names(header, row) for at, row in enumerate(rows)]
    if not any(names):
        raise ValueError(
            f"roster is {roster}, and no column of it names a student: give Canvas's or Moodle's own export, with a "
            "header such as Student, ID, SIS Login ID, Email address, Username or ID number."
        )
    cells = [row[own[0]] if own else "" for row in rows]
    if not own:
        cells = [number(sum(one.points for one in record.exercises)) if at in about else "" for at in range(len(rows))]
    called = [_line(" ".join(row[at] for at in _columns(header, NAMES)[:2])) for row in rows]
    marked, said = _matched(graded, names, called)
    kept = _columns(header, NAMES | SHARED)
    table = [[*(header[at] for at in kept), header[own[0]] if own else record.release]]
    for at, row in enumerate(rows):
        if names[at] or canvas:  # Moodle would give the marks of a row without a student to the one above it
            cell = number(marked[at].points) if at in marked else cells[at]
            table.append([*(row[each] for each in kept), cell])
    return table, said


def _matched(
    graded: Sequence[Graded], names: Sequence[set[str]], called: Sequence[str]
) -> tuple[dict[int, Graded], list[str]]:
    """Which row of the roster is whose, and what is to be said of the others."""
    rows_of: dict[str, list[int]] = defaultdict(list)
    for at, keys in enumerate(names):
        for key in keys:
            rows_of[key].append(at)
    fits = [next((rows_of[key] for key in map(_key, identities(one.student)) if key in rows_of), []) for one in graded]
    takers = Counter(at for rows in fits for at in rows)
    marked, strangers, said = {}, [], []
    for one, rows in zip(graded, fits, strict=True):
        if not rows:
            strangers.append(_line(one.student))
        elif len(rows) > 1:
            said.append(f'{len(rows)} rows of the roster fit "{_line(one.student)}": {BY_HAND}.')
        elif takers[rows[0]] > 1:
            said.append(f'"{_line(one.student)}" is not alone in fitting {called[rows[0]]} of the roster: {BY_HAND}.')
        else:
            marked[rows[0]] = one
    if strangers:
        said.append(f"In no row of the roster, so not in grades.csv: {_listed(strangers)}.")
    if missing := [called[at] for at, keys in enumerate(names) if keys and at not in takers]:
        said.append(f"Handed in nothing, so got no points (which is not 0 points): {_listed(missing)}.")
    return marked, said


def _read(roster: Path) -> tuple[list[str], list[list[str]]]:
    """The header of a roster and its rows, all as wide as the header."""
    try:
        text = roster.read_bytes().decode("utf-8-sig")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        header, *rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(
            f"roster is {roster}, which is no CSV file in UTF-8 with a header ({type(error).__name__}): "
            "give Canvas's or Moodle's own export."
        ) from None
    return [name.strip() for name in header], [(row + [""] * len(header))[: len(header)] for row in rows]


def _columns(header: Sequence[str], wanted: set[str]) -> list[int]:
    return [at for at, name in enumerate(header) if _key(name) in wanted]


def _names(header: Sequence[str], row: Sequence[str]) -> set[str]:
    """All by which a row's student can be called, as keys."""
    names = [row[at] for at in _columns(header, WHOLE)]
    names += [" ".join(reversed(name.split(", "))) for name in names if name.count(", ") == 1]  # Canvas: Doe, Jane
    first, last = (" ".join(row[at] for at in _columns(header, part)) for part in (FIRST, LAST))
    if first.strip() and last.strip():
        names += [f"{first} {last}", f"{last} {first}", f"{last}, {first}"]
    return {_key(name) for name in names} - {""}


def _key(name: str) -> str:
    """What two names share when they are the same but for case, blanks and the way that accents are stored."""
    return unicodedata.normalize("NFC", " ".join(unicodedata.normalize("NFC", name).casefold().split()))


def _details(graded: Sequence[Graded], record: Record) -> list[list[str]]:
    exercises = [one.name for one in record.exercises]
    rows = [["student", *exercises, "total", "late", "handed_in", "to_look_at", "remarks", "feedback"]]
    for one in graded:
        points = {mark.verdict.name: number(mark.points) for mark in one.marks}
        said = [", ".join(looked_at(one)), " ".join(one.remarks)]
        total = [number(one.points), "yes" if one.late else "no", _safe(one.handed_in or "")]
        feedback = f"{FOLDER}/{page_name(one.student)}"
        earned = [points.get(name, "") for name in exercises]
        rows.append([_safe(one.student), *earned, *total, *map(_safe, said), feedback])
    return rows


def _as_csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _line(text: str) -> str:
    """A text of a stranger in one line, with nothing hidden in it."""
    return visible(" ".join(text.split()))


def _safe(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{_line(text)}" if text.lstrip()[:1] in tuple("=+-@") else _line(text)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
