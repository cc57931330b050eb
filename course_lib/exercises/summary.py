"""`progress()`: which exercises are passed, and what is left to do."""

from __future__ import annotations

from html import escape

from .catalogue import EXERCISES
from .exercise import Exercise
from .ledger import marks
from .overview import Overview, heading, remark
from .progress_file import Mark
from .tries import state
from .verdict import NOT_PASSED, PASSED, SIGNS
from .workspace import file_of_progress


class Progress:
    """The exercises of one lesson, or of those that were begun in this kernel, as a table.

    Attributes:
        rows: (exercise, state) in the order of the lessons.
        trouble: a sentence about the file that keeps progress, or "".
    """

    def __init__(self, rows: list[tuple[Exercise, str]], trouble: str = "") -> None:
        self.rows, self.trouble = rows, trouble

    @property
    def passed(self) -> int:
        """How many are passed."""
        return sum(state == PASSED for _, state in self.rows)

    def _summary(self) -> str:
        return f"{self.passed} of {len(self.rows)} exercises passed" if self.rows else "No exercise was checked yet"

    def __repr__(self) -> str:
        wide = max((len(exercise.name) for exercise, _ in self.rows), default=0)
        lines = [
            f"  {exercise.lesson}  {exercise.name:<{wide}}  {SIGNS.get(state, ' ')} {state}"
            for exercise, state in self.rows
        ]
        return "\n".join([f"{self._summary()}.", *lines, *([self.trouble] if self.trouble else [])])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{exercise.lesson}</td><td>{escape(exercise.title)}</td><td><code>{escape(exercise.name)}</code>"
            f"</td><td>{SIGNS.get(state, '')} {state}</td></tr>"
            for exercise, state in self.rows
        )
        head = heading("lesson", "exercise", "name", "state")
        table = f"<table><caption>{self._summary()}</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"
        return table + remark(self.trouble)


def progress(lesson: str | int | None = None) -> Progress | Overview:
    """Sum up what was checked, in this kernel and, in a workspace, in those before it.

    Args:
        lesson: number of a lesson, such as "01", to see each of its exercises.

    Returns:
        Progress of that lesson: each exercise, and how its last check ended. Without a number an Overview of all
        lessons; outside of a workspace, where nothing is kept, Progress of those that were begun in this kernel.

    Raises:
        ValueError: the lesson has no exercises.

    Example:
        >>> progress()  # in a fresh kernel
        No exercise was checked yet.
    """
    kept, trouble = marks()
    lessons = list(dict.fromkeys(exercise.lesson for exercise in EXERCISES.values()))
    if lesson is not None:
        number = str(lesson).zfill(2)
        if number not in lessons:
            raise ValueError(f"lesson is {lesson!r}, which has no exercises: choose among {', '.join(lessons)}.")
        shown = {number}
    elif file_of_progress() is not None:
        return Overview(list(EXERCISES.values()), kept, trouble)
    else:
        shown = {exercise.lesson for exercise in EXERCISES.values() if state(exercise.name)}
    rows = [(exercise, _state(exercise.name, kept)) for exercise in EXERCISES.values() if exercise.lesson in shown]
    return Progress(rows, trouble)


def _state(name: str, kept: dict[str, Mark]) -> str:
    """How the last check in this kernel ended, else what is known from before."""
    if known := state(name):
        return known
    mark = kept.get(name, Mark())
    return PASSED if mark.done else NOT_PASSED if mark.attempts else "not tried"
