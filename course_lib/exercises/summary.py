"""`progress()`: which exercises have been passed in this kernel."""

from __future__ import annotations

from html import escape

from .exercise import Exercise
from .verdict import PASSED, SIGNS, Verdict

_LATEST: dict[str, str] = {}  # name -> state of the last check


def note(verdict: Verdict) -> None:
    """Remember how the last check of an exercise ended."""
    _LATEST[verdict.name] = verdict.state


class Progress:
    """The exercises of the lessons that were begun in this kernel, as a table.

    Attributes:
        rows: (exercise, state) in the order of the lessons.
    """

    def __init__(self, rows: list[tuple[Exercise, str]]) -> None:
        self.rows = rows

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
        return "\n".join([f"{self._summary()}.", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{exercise.lesson}</td><td>{escape(exercise.title)}</td><td><code>{escape(exercise.name)}</code>"
            f"</td><td>{SIGNS.get(state, '')} {state}</td></tr>"
            for exercise, state in self.rows
        )
        head = (
            "<tr>"
            + "".join(f'<th scope="col">{name}</th>' for name in ("lesson", "exercise", "name", "state"))
            + "</tr>"
        )
        return f"<table><caption>{self._summary()}</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"


def progress() -> Progress:
    """Sum up the checks of this kernel.

    Returns:
        Progress: every exercise of each lesson of which at least one was checked, and how its last check ended.

    Example:
        >>> progress()  # in a fresh kernel
        No exercise was checked yet.
    """
    from .catalogue import EXERCISES

    begun = {EXERCISES[name].lesson for name in _LATEST}
    rows = [(exercise, _LATEST.get(exercise.name, "not tried")) for exercise in EXERCISES.values()]
    return Progress([row for row in rows if row[0].lesson in begun])
