"""One student's week, graded: the code runs behind walls, the numbers are drawn and compared on this side."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from course_lib.exercises.verdict import LOOK, Verdict, not_passed

from .handed_in.counting import what_counts
from .handed_in.notebooks import Sheet, missing, runnable
from .handed_in.unreadable import Unreadable
from .judging.given import given
from .judging.remote import Remote
from .judging.verdicts import verdicts
from .judging.verdicts import words as harmless
from .marks import Graded, Mark
from .record import Asked, Record
from .sandbox import Sandbox

MOST_REMARKS, LONGEST = 20, 600


@dataclass(frozen=True, eq=False)
class Handed:
    """A notebook as it travels to a worker.

    Attributes:
        name: of the file.
        at: when it was handed in, unix time.
        marked_late: whether the school's platform says that it was late.
        sheet: what is in it, or None.
        reason: why nothing is.
    """

    name: str
    at: float
    marked_late: bool
    sheet: Sheet | None
    reason: str = ""


@dataclass(frozen=True)
class Work:
    """All that is needed to grade one student, as data: no path of the teacher's machine.

    Attributes:
        student: name of the folder or file.
        files: what was handed in.
        remarks: what was found when the files were collected.
        record: of the release.
        due: unix time, or None.
        late_factor: what points of late exercises are multiplied by.
        secret: the run's own; from it and the student's name the numbers are drawn.
        digest: of all this but the secret.
    """

    student: str
    files: tuple[Handed, ...]
    remarks: tuple[str, ...]
    record: Record
    due: float | None = None
    late_factor: float = 1.0
    secret: bytes = b""
    digest: str = ""

    def seed(self, exercise: str) -> bytes:
        """What the numbers of one exercise are drawn from: nobody without the secret can know them."""
        return hmac.digest(self.secret, f"{self.student}\0{exercise}".encode(), hashlib.sha256)


def grade(work: Work, sandbox: Sandbox, clinic: Sandbox) -> Graded:
    """Grade one student.

    Args:
        work: what was handed in, and what was asked.
        sandbox: where answers run; nothing of the course is in it but what an exercise gives.
        clinic: where wrong classes run again, with the doctor beside them. What is said there names a mistake; it never
            gives a mark.

    Returns:
        Graded, with a mark for each exercise of the release, whatever was handed in.

    Raises:
        NoSandbox: students' code can't be run here.
    """
    began = time.perf_counter()
    names = [one.name for one in work.record.exercises]
    sheets = [(file, file.sheet or Unreadable(file.reason)) for file in work.files]
    counted = what_counts(sheets, names, work.due, work.record.release)
    found: dict[str, Verdict] = {}
    remarks = [*work.remarks, *counted.remarks]
    for group, sheet in _groups(counted.sheet_of):
        cells = [(cell.number, runnable(cell.source)[0]) for cell in sheet.cells]
        with Remote(sandbox, cells, group, given(group[0])) as remote:
            found |= verdicts(remote, sheet, work.seed, clinic)
            remarks += _remarks(remote, sheet)
    marks = tuple(
        _mark(one, found.get(one.name), counted.late.get(one.name, False), work) for one in work.record.exercises
    )
    handed_in = counted.handed_in and datetime.fromtimestamp(counted.handed_in, UTC).isoformat(timespec="seconds")
    return Graded(
        work.student,
        marks,
        tuple(dict.fromkeys(remarks))[:MOST_REMARKS],
        handed_in or None,
        any(counted.late.values()),
        work.digest,
        round(time.perf_counter() - began, 3),
    )


def failed(work: Work, reason: str) -> Graded:
    """A result that asks for a teacher's look at every exercise."""
    marks = tuple(Mark(_look(one, reason), one.title, 0.0, one.points) for one in work.record.exercises)
    return Graded(work.student, marks, (*work.remarks, reason), digest=work.digest)


def _look(one: Asked, reason: str) -> Verdict:
    return Verdict(LOOK, reason, lesson=one.lesson, name=one.name)


def _groups(sheet_of: dict[str, Sheet]) -> list[tuple[list[str], Sheet]]:
    """Exercises that can share a process: of one notebook, and given the same of the course."""
    groups: list[tuple[list[str], Sheet, Any]] = []
    for name, sheet in sheet_of.items():
        gives = given(name)
        group = next((one for one in groups if one[1] is sheet and one[2] == gives), None)
        if group is None:
            groups.append(([name], sheet, gives))
        else:
            group[0].append(name)
    return [(names, sheet) for names, sheet, _ in groups]


def _remarks(remote: Remote, sheet: Sheet) -> list[str]:
    """What happened to cells, as far as the student should know."""
    said = [f"Cell {number} was left out: {reason}." for number, reason in sorted(remote.ended.items())]
    for number, told in sorted(remote.raised.items()):
        if told.get("kind") not in ("NotInGrading", "NotImplementedError") and number not in remote.ended:
            words = harmless(told.get("words")) or "no reason was given"
            said.append(f"Cell {number} stopped with {harmless(told.get('kind'))}: {words}.")
    for cell in sheet.cells:
        if remark := runnable(cell.source)[1]:
            said.append(f"Cell {cell.number}: {remark}")
    return said


def _mark(one: Asked, verdict: Verdict | None, late: bool, work: Work) -> Mark:
    if verdict is None:
        sheets = [file.sheet for file in work.files if file.sheet]
        words = missing(sheets[-1], one.name) if sheets else "Nothing that could be read was handed in."
        verdict = not_passed(words).of(one.name, one.lesson)
    points = one.points * (work.late_factor if late else 1.0) if verdict.passed else 0.0
    return Mark(_short(verdict), one.title, points, one.points)


def _short(verdict: Verdict) -> Verdict:
    """A result of a thousand numbers needn't be told whole."""
    says, *evidence = (
        text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in (verdict.says, *verdict.evidence)
    )
    return replace(verdict, says=says, evidence=tuple(evidence))
