"""What a teacher decides on answers that grading can't judge: a table that each run reads, keeps and fills up."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from course_lib.exercises import NOT_PASSED, PASSED, Verdict

from .manifest import Release
from .marks import Mark, StudentResult
from .reports import number, one_line, read_table, safe_cell, write_table

HEADER = ("student", "exercise", "points", "comment")


@dataclass(frozen=True)
class Decision:
    """The points that a teacher gives for one exercise, or None as long as that is open, and a sentence on why."""

    points: float | None
    comment: str = ""


Decisions = dict[tuple[str, str], Decision]  # (student, exercise) -> decision


def read_decisions(path: Path, release: Release) -> Decisions:
    """Read what was decided; nothing where there is no file.

    Raises:
        ValueError: It is not such a table, or a row names no exercise of the release, or points that it doesn't give.
    """
    if not path.exists():
        return {}
    possible = {exercise.name: exercise.points for exercise in release.exercises}
    try:
        header, *rows = read_table(path)
        if [name.strip().lower() for name in header[:4]] != list(HEADER):
            raise ValueError(f"its header is {','.join(header)}")
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file with the header {','.join(HEADER)}: {error}.") from None
    decisions: Decisions = {}
    for row in rows:
        student, exercise, points, comment = (cell.strip() for cell in (*row, "", "", "", "")[:4])
        try:
            given = float(points.replace(",", ".")) if points else None
            if given is not None and not 0 <= given <= possible[exercise]:
                raise ValueError
        except (ValueError, KeyError):
            limit = (
                f"give a number from 0 to {number(possible[exercise])}" if exercise in possible else "there is no such"
            )
            raise ValueError(f"{path} gives {student} {points!r} points for {exercise!r}: {limit}.") from None
        decisions[student, exercise] = Decision(given, comment)
    return decisions


def write_decisions(path: Path, decisions: Decisions, results: Sequence[StudentResult]) -> None:
    """Write what was decided, and a row without points for each exercise that still needs a decision."""
    needed: Decisions = {(_name(one), exercise): Decision(None) for one in results for exercise in one.needs_review}
    kept = {key: one for key, one in decisions.items() if one.points is not None or key in needed}
    if rows := needed | kept:
        points = {key: "" if one.points is None else number(one.points) for key, one in rows.items()}
        table = [[*key, points[key], one.comment] for key, one in sorted(rows.items())]
        write_table(path, [HEADER, *table])


def decided(result: StudentResult, decisions: Decisions) -> StudentResult:
    """Return a result with the points that the teacher decided on."""
    marks = [_decided(mark, decisions.get((_name(result), mark.verdict.name))) for mark in result.marks]
    return replace(result, marks=tuple(marks))


def _decided(mark: Mark, decision: Decision | None) -> Mark:
    if decision is None or decision.points is None:
        return mark
    state = PASSED if decision.points >= mark.possible else NOT_PASSED
    message = decision.comment or "Your teacher looked at it and decided on the points."
    verdict = Verdict(state, message, lesson=mark.verdict.lesson, name=mark.verdict.name)
    return replace(mark, verdict=verdict, points=decision.points)


def _name(result: StudentResult) -> str:
    return safe_cell(one_line(result.student))
