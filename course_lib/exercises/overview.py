"""Show all exercises in a short table with one row per lesson."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from course_lib.wording import counted

from .exercise import Exercise
from .progress_file import ExerciseStatus

COLUMNS = ("lesson", "passed", "points", "attempts", "minutes left", "next")


class LessonRow(NamedTuple):
    """How many exercises of one lesson, or of all lessons, are passed, and what is left.

    Attributes:
        lesson: number of the lesson, or "" for all.
        done: number of exercises that are passed.
        total: number of exercises.
        points, all_points: points of those that are passed, and of all; an exercise gives as many as its difficulty.
        attempts: number of attempts at them.
        minutes: how long the rest takes.
        next: the first exercise that is not passed, or None.
    """

    lesson: str
    done: int
    total: int
    points: int
    all_points: int
    attempts: int
    minutes: int
    next: Exercise | None

    @classmethod
    def of(cls, lesson: str, exercises: Sequence[Exercise], statuses: Mapping[str, ExerciseStatus]) -> LessonRow:
        """Return the row for the exercises of a lesson."""
        known = {exercise.name: statuses.get(exercise.name, ExerciseStatus()) for exercise in exercises}
        left = [exercise for exercise in exercises if not known[exercise.name].done]
        attempts = sum(status.attempts for status in known.values())
        minutes = sum(exercise.minutes for exercise in left)
        total = sum(exercise.difficulty for exercise in exercises)
        points = total - sum(exercise.difficulty for exercise in left)
        counts = len(exercises) - len(left), len(exercises), points, total
        return cls(lesson, *counts, attempts, minutes, next(iter(left), None))

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row as text, one per column of COLUMNS."""
        next_name = self.next.name if self.next else ""
        passed, points = f"{self.done} of {self.total}", f"{self.points} of {self.all_points}"
        return self.lesson, passed, points, str(self.attempts), str(self.minutes), next_name


class Overview:
    """A learner's progress in all exercises, as a table.

    Attributes:
        rows: one per lesson.
        total: all lessons together.
        warning: one sentence about the file that keeps progress, or "".
    """

    def __init__(
        self, exercises: Sequence[Exercise], statuses: Mapping[str, ExerciseStatus], warning: str = ""
    ) -> None:
        by_lesson: dict[str, list[Exercise]] = {}
        for exercise in exercises:
            by_lesson.setdefault(exercise.lesson, []).append(exercise)
        self.rows = [LessonRow.of(lesson, own, statuses) for lesson, own in by_lesson.items()]
        self.total, self.warning = LessonRow.of("", exercises, statuses), warning

    def _summary(self) -> str:
        done, total, attempts, minutes = self.total.done, self.total.total, self.total.attempts, self.total.minutes
        tried = f" in {counted(attempts, 'attempt')}" if attempts else ""
        return f"{done} of {total} exercises passed{tried}{f', about {minutes} minutes left' if minutes else ''}"

    def __repr__(self) -> str:
        table = [COLUMNS, *(row.cells() for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  " + "  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table]
        upcoming = self.total.next
        after = [f"Next: lesson {upcoming.lesson}, {upcoming.name}: {upcoming.title}."] if upcoming else []
        return "\n".join([f"{self._summary()}.", *lines, *after, *([self.warning] if self.warning else [])])

    def _repr_html_(self) -> str:
        rows = ""
        for lesson, *middle, name in (row.cells() for row in self.rows):
            cells = "".join(f"<td>{cell}</td>" for cell in middle)
            code = f"<code>{escape(name)}</code>" if name else ""
            rows += f'<tr><th scope="row">{lesson}</th>{cells}<td>{code}</td></tr>'
        caption = f"<caption>{self._summary()}</caption>"
        table = f"<table>{caption}<thead>{heading(*COLUMNS)}</thead><tbody>{rows}</tbody></table>"
        return table + paragraph(self.warning)


def heading(*names: str) -> str:
    """Return the heading row of an HTML table."""
    return "<tr>" + "".join(f'<th scope="col">{name}</th>' for name in names) + "</tr>"


def paragraph(sentence: str) -> str:
    """Return a sentence as an HTML paragraph; no sentence gives no paragraph."""
    return f"<p>{escape(sentence)}</p>" if sentence else ""
