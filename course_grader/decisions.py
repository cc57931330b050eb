"""What a teacher decides: on answers that grading can't judge, in a table that each run fills up, and on due times."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from course_lib.exercises import NEEDS_REVIEW, NOT_PASSED, PASSED, Verdict

from .manifest import Release
from .marks import IN_PART, Mark, StudentResult
from .reports import number, read_own_table, shown_name, student_named, write_table

HEADER, EXTENSIONS_HEADER = ("student", "exercise", "points", "comment"), ("student", "due")
NEVER = "none"  # in place of a due time: nothing of this student's is late


@dataclass(frozen=True)
class Decision:
    """The points that a teacher gives for one exercise, or None as long as that is open, and a sentence on why."""

    points: float | None
    comment: str = ""


Decisions = dict[tuple[str, str], Decision]  # (student, exercise) -> decision


def read_decisions(path: Path, release: Release, students: Sequence[str]) -> Decisions:
    """Read what was decided about these students; nothing where there is no file.

    Raises:
        ValueError: It is not such a table, or a row names nobody of them, no exercise of the release, or points that
            it doesn't give.
    """
    if not path.exists():
        return {}
    possible = {exercise.name: exercise.points for exercise in release.exercises}
    decisions: Decisions = {}
    for student, exercise, points, comment in read_own_table(path, HEADER):
        try:
            given = float(points.replace(",", ".")) if points else None
            if given is not None and not 0 <= given <= possible[exercise]:
                raise ValueError
        except (ValueError, KeyError):
            limit = (
                f"give a number from 0 to {number(possible[exercise])}" if exercise in possible else "there is no such"
            )
            raise ValueError(f"{path} gives {student} {points!r} points for {exercise!r}: {limit}.") from None
        decisions[shown_name(student_named(student, students, path)), exercise] = Decision(given, comment)
    return decisions


def write_decisions(path: Path, decisions: Decisions, results: Sequence[StudentResult]) -> None:
    """Write what was decided, and a row without points for each exercise that still needs a decision."""
    needed: Decisions = {
        (shown_name(one.student), exercise): Decision(None) for one in results for exercise in one.needs_review
    }
    kept = {key: one for key, one in decisions.items() if one.points is not None or key in needed}
    if rows := needed | kept:
        points = {key: "" if one.points is None else number(one.points) for key, one in rows.items()}
        table = [[*key, points[key], one.comment] for key, one in sorted(rows.items())]
        write_table(path, [HEADER, *table])


def decided(result: StudentResult, decisions: Decisions) -> StudentResult:
    """Return a result with the points that the teacher decided on."""
    marks = [_decided(mark, decisions.get((shown_name(result.student), mark.verdict.name))) for mark in result.marks]
    return replace(result, marks=tuple(marks))


def _decided(mark: Mark, decision: Decision | None) -> Mark:
    if decision is None or decision.points is None:
        return mark
    found, message = mark.verdict, decision.comment or "Your teacher looked at it and decided on the points."
    if decision.points >= mark.possible:
        verdict = Verdict(PASSED, message, lesson=found.lesson, name=found.name)
        return replace(mark, verdict=verdict, points=decision.points, caused_by=())
    state = NOT_PASSED if found.state in (PASSED, NEEDS_REVIEW) else found.state
    evidence = (f"The check said: {found.message}", *found.evidence)  # it still helps
    verdict = replace(found, state=IN_PART if decision.points else state, message=message, evidence=evidence)
    return replace(mark, verdict=verdict, points=decision.points)


def parse_due(text: str, what: str) -> float:
    """Parse a time as seconds since 1970; without a zone it is in this machine's zone, and a day means its end.

    Raises:
        ValueError: It is not a time; the message begins with `what`.
    """
    try:
        moment = datetime.fromisoformat(text)
        if re.fullmatch(r"[\dW-]+", text):  # a date alone
            moment = moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
        return moment.timestamp()
    except ValueError:
        raise ValueError(
            f"{what} is {text!r}, which is not a time: write 2026-11-20, 2026-11-20T18:00 or 2026-11-20T18:00+01:00."
        ) from None


def read_extensions(path: Path, students: Sequence[str]) -> dict[str, float]:
    """Read which students have a due time of their own.

    In the table, due is a time, or "none" for no limit, which is infinity here.

    Raises:
        ValueError: It is no table with the header student,due, a time is none, or a name is that of nobody.
    """
    return {
        student_named(name, students, path): math.inf if due.lower() == NEVER else parse_due(due, f"{path}: {name!r}")
        for name, due in read_own_table(path, EXTENSIONS_HEADER)
    }
