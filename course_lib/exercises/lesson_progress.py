"""`progress()` shows which exercises are passed and what is left to do."""

from __future__ import annotations

from html import escape

from .attempts import last_state
from .catalogue import EXERCISES
from .exercise import Exercise
from .overview import Overview, heading, paragraph
from .progress_file import ExerciseStatus
from .progress_location import progress_path
from .progress_store import statuses
from .verdict import NOT_PASSED, PASSED, SIGNS


class Progress:
    """The exercises of one lesson, or of the lessons that were begun in this kernel, as a table.

    Attributes:
        rows: (exercise, state) in the order of the lessons.
        warning: one sentence about the file that keeps progress, or "".
    """

    def __init__(self, rows: list[tuple[Exercise, str]], warning: str = "") -> None:
        self.rows, self.warning = rows, warning

    @property
    def passed(self) -> int:
        """Number of exercises that are passed."""
        return sum(state == PASSED for _, state in self.rows)

    def _summary(self) -> str:
        return f"{self.passed} of {len(self.rows)} exercises passed" if self.rows else "No exercise was checked yet"

    def __repr__(self) -> str:
        width = max((len(exercise.name) for exercise, _ in self.rows), default=0)
        lines = [
            f"  {exercise.lesson}  {exercise.name:<{width}}  {SIGNS.get(state, ' ')} {state}"
            for exercise, state in self.rows
        ]
        return "\n".join([f"{self._summary()}.", *lines, *([self.warning] if self.warning else [])])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{exercise.lesson}</td><td>{escape(exercise.title)}</td><td><code>{escape(exercise.name)}</code>"
            f"</td><td>{SIGNS.get(state, '')} {state}</td></tr>"
            for exercise, state in self.rows
        )
        head = heading("lesson", "exercise", "name", "state")
        table = f"<table><caption>{self._summary()}</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"
        return table + paragraph(self.warning)


def progress(lesson: str | int | None = None) -> Progress | Overview:
    """Sum up what was checked in this kernel and, in a workspace, in earlier ones.

    Args:
        lesson: number of a lesson, such as "01", to see each of its exercises.

    Returns:
        Progress of that lesson: each exercise and the result of its last check. Without a number, an Overview of all
        lessons; outside of a workspace, where nothing is kept, Progress of the lessons that were begun in this kernel.

    Raises:
        ValueError: the lesson has no exercises.

    Example:
        >>> progress()  # in a fresh kernel
        No exercise was checked yet.
    """
    kept, warning = statuses()
    lessons = list(dict.fromkeys(exercise.lesson for exercise in EXERCISES.values()))
    if lesson is not None:
        number = str(lesson).zfill(2)
        if number not in lessons:
            raise ValueError(f"lesson is {lesson!r}, which has no exercises: choose among {', '.join(lessons)}.")
        shown = {number}
    elif progress_path() is not None:
        return Overview(list(EXERCISES.values()), kept, warning)
    else:
        shown = {exercise.lesson for exercise in EXERCISES.values() if last_state(exercise.name)}
    rows = [(exercise, _state(exercise.name, kept)) for exercise in EXERCISES.values() if exercise.lesson in shown]
    return Progress(rows, warning)


def _state(name: str, kept: dict[str, ExerciseStatus]) -> str:
    """Return the state after the last check in this kernel, or else the state that the file keeps."""
    if known := last_state(name):
        return known
    status = kept.get(name, ExerciseStatus())
    return PASSED if status.done else NOT_PASSED if status.attempts else "not tried"
