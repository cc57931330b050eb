"""All exercises in one short table: a row for each lesson."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from .exercise import Exercise
from .progress_file import Mark

COLUMNS = ("lesson", "passed", "attempts", "minutes left", "next")


class Row(NamedTuple):
    """What is done of one lesson's exercises, or of all, and what is left."""

    lesson: str
    done: int
    number: int
    attempts: int
    minutes: int
    next: Exercise | None

    @classmethod
    def of(cls, lesson: str, exercises: Sequence[Exercise], marks: Mapping[str, Mark]) -> Row:
        """Count some exercises."""
        open_ = [each for each in exercises if not marks.get(each.name, Mark()).done]
        attempts = sum(marks.get(each.name, Mark()).attempts for each in exercises)
        minutes = sum(each.minutes for each in open_)
        return cls(lesson, len(exercises) - len(open_), len(exercises), attempts, minutes, next(iter(open_), None))

    def cells(self) -> tuple[str, ...]:
        """The row as words, one for each of COLUMNS."""
        next_name = self.next.name if self.next else ""
        return self.lesson, f"{self.done} of {self.number}", str(self.attempts), str(self.minutes), next_name


class Overview:
    """How far a learner is.

    Attributes:
        rows: one for each lesson.
        total: all of them together.
        trouble: a sentence about the file that keeps progress, or "".
    """

    def __init__(self, exercises: Sequence[Exercise], marks: Mapping[str, Mark], trouble: str = "") -> None:
        lessons = dict.fromkeys(each.lesson for each in exercises)
        self.rows = [Row.of(one, [each for each in exercises if each.lesson == one], marks) for one in lessons]
        self.total, self.trouble = Row.of("", exercises, marks), trouble

    def _summary(self) -> str:
        done, number, attempts, minutes = self.total[1:5]
        tried = f" in {attempts} attempt{'' if attempts == 1 else 's'}" if attempts else ""
        return f"{done} of {number} exercises passed{tried}{f', about {minutes} minutes left' if minutes else ''}"

    def __repr__(self) -> str:
        table = [COLUMNS, *(row.cells() for row in self.rows)]
        wide = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  " + "  ".join(map(str.ljust, cells, wide)).rstrip() for cells in table]
        after = self.total.next
        then = [f"Next: lesson {after.lesson}, {after.name}: {after.title}."] if after else []
        return "\n".join([f"{self._summary()}.", *lines, *then, *([self.trouble] if self.trouble else [])])

    def _repr_html_(self) -> str:
        rows = ""
        for lesson, *middle, name in (row.cells() for row in self.rows):
            numbers = "".join(f"<td>{cell}</td>" for cell in middle)
            code = f"<code>{escape(name)}</code>" if name else ""
            rows += f'<tr><th scope="row">{lesson}</th>{numbers}<td>{code}</td></tr>'
        caption = f"<caption>{self._summary()}</caption>"
        table = f"<table>{caption}<thead>{heading(*COLUMNS)}</thead><tbody>{rows}</tbody></table>"
        return table + remark(self.trouble)


def heading(*names: str) -> str:
    """The first row of a table."""
    return "<tr>" + "".join(f'<th scope="col">{name}</th>' for name in names) + "</tr>"


def remark(sentence: str) -> str:
    """A sentence below a table, or nothing."""
    return f"<p>{escape(sentence)}</p>" if sentence else ""
