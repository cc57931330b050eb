"""What a teacher decides: on answers that grading can't judge, in a table that each run fills up, and on due times."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from course_lib.exercises import NEEDS_REVIEW, NOT_PASSED, PASSED, Verdict

from .manifest import Release
from .marks import IN_PART, Mark, StudentResult
from .reports import number, read_course_table, shown_name, student_named, write_table

HEADER, EXTENSIONS_HEADER = ("student", "exercise", "points", "comment"), ("student", "due")
TIME_COLUMN = "handed_in"  # the column that grading adds to the decisions: when what was decided on was handed in
NEVER = "none"  # in place of a due time: nothing of this student's is late


@dataclass(frozen=True)
class Decision:
    """The points that a teacher gives for one exercise, or None as long as that is open, and a sentence on why.

    `handed_in` is when what was decided on was handed in; "" before the run that sees the decision first.
    """

    points: float | None
    comment: str = ""
    handed_in: str = ""


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
    for student, exercise, points, comment, handed_in in _known_rows(path, HEADER, students, 2, (TIME_COLUMN,)):
        try:
            awarded = float(points.replace(",", ".")) if points else None
            if awarded is not None and not 0 <= awarded <= possible[exercise]:
                raise ValueError
        except (ValueError, KeyError):
            limit = (
                f"give a number from 0 to {number(possible[exercise])}" if exercise in possible else "there is no such"
            )
            raise ValueError(f"{path} gives {student} {points!r} points for {exercise!r}: {limit}.") from None
        decisions[shown_name(student), exercise] = Decision(awarded, comment, handed_in)
    return decisions


def _known_rows(
    path: Path, header: Sequence[str], students: Sequence[str], keys: int, more: Sequence[str] = ()
) -> list[list[str]]:
    """Read the rows of a table about these students; no two rows may be about the same, which the first cells say."""
    rows = [[student_named(name, students, path), *rest] for name, *rest in read_course_table(path, header, more)]
    for key, count in Counter(tuple(row[:keys]) for row in rows).items():
        if count > 1:
            raise ValueError(f"{path} has {count} rows for {' and '.join(key)}: remove all but the one that counts.")
    return rows


def write_decisions(path: Path, decisions: Decisions, results: Sequence[StudentResult]) -> list[str]:
    """Write what was decided, and a row without points for each exercise that still needs a decision.

    Returns:
        Sentences on decisions about something else than what counts now.
    """
    now = {shown_name(result.student): result.submitted_at or "" for result in results}
    needed: Decisions = {
        (shown_name(result.student), exercise): Decision(None) for result in results for exercise in result.needs_review
    }
    final = {key: decision for key, decision in decisions.items() if decision.points is not None}
    if rows := needed | {key: decision for key, decision in decisions.items() if key in needed} | final:
        points = {key: "" if decision.points is None else number(decision.points) for key, decision in rows.items()}
        times = {key: (points[key] and decision.handed_in) or now[key[0]] for key, decision in rows.items()}
        table = [[*key, points[key], decision.comment, times[key]] for key, decision in sorted(rows.items())]
        write_table(path, [(*HEADER, TIME_COLUMN), *table])
    return [
        f"What {student} handed in is of another time than when you decided on {exercise}: the decision still counts. "
        f"To keep it, empty the cell {TIME_COLUMN} of its row in {path.name}; to drop it, remove the row."
        for (student, exercise), decision in final.items()
        if decision.handed_in not in ("", now[student])
    ]


def decided(result: StudentResult, decisions: Decisions) -> StudentResult:
    """Return a result with the points that the teacher decided on."""
    marks = [_decided(mark, decisions.get((shown_name(result.student), mark.verdict.name))) for mark in result.marks]
    return replace(result, marks=tuple(marks))


def _decided(mark: Mark, decision: Decision | None) -> Mark:
    if decision is None or decision.points is None:
        return mark
    original, message = mark.verdict, decision.comment or "Your teacher looked at it and decided on the points."
    if decision.points >= mark.possible:
        verdict = Verdict(PASSED, message, lesson=original.lesson, name=original.name)
        return replace(mark, verdict=verdict, points=decision.points, caused_by=())
    state = NOT_PASSED if original.state in (PASSED, NEEDS_REVIEW) else original.state
    evidence = (f"The check said: {original.message}", *original.evidence)  # it still helps
    verdict = replace(original, state=IN_PART if decision.points else state, message=message, evidence=evidence)
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
        name: math.inf if due.lower() == NEVER else parse_due(due, f"{path}: {name!r}")
        for name, due in _known_rows(path, EXTENSIONS_HEADER, students, 1)
    }
