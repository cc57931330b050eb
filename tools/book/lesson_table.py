"""Read the lessons in reading order from the table in the README."""

import re
from dataclasses import dataclass
from pathlib import Path

from . import markdown

ROW = re.compile(
    r"^\| \[(\d\d) ([^\]]+)\]\(notebooks/(\w+)\.ipynb\) \| ([^|]+?) \| (\d+)&nbsp;min \| ([^|]*?)\|", re.MULTILINE
)


@dataclass(frozen=True)
class LessonRow:
    """A lesson in the table: its number, title, file name, what the learner ends up with, and its time."""

    number: str
    title: str
    name: str
    ends_with: str
    minutes: int
    exercises: str

    @property
    def exercise_minutes(self) -> int:
        """How long its exercises take; 0 without any."""
        match = re.search(r"(\d+)&nbsp;min", self.exercises)
        return int(match[1]) if match else 0


def read_walk(root: Path) -> list[LessonRow]:
    """Read the rows of the README's table.

    Raises:
        ValueError: A lesson has no row, or a row has no lesson.
    """
    rows = [
        LessonRow(number, title, name, ends_with, int(minutes), exercises.strip())
        for number, title, name, ends_with, minutes, exercises in ROW.findall((root / "README.md").read_text("utf-8"))
    ]
    stored = {path.stem for path in (root / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    different = ", ".join(sorted(stored ^ {row.name for row in rows}))
    if different:
        raise ValueError(f"The README's table and notebooks/ differ in {different}: give each lesson a row.")
    return rows


def table(rows: list[LessonRow]) -> str:
    """Return the rows as the table of the front page."""
    lines = []
    for row in rows:
        minutes = re.search(r"\[(\d+), (\d+)&nbsp;min\]", row.exercises)
        file = f"notebooks/exercises/{row.number}_exercises.ipynb"
        to_do = f"[{minutes[1]}, {minutes[2]}&nbsp;min]({file})" if minutes else ""
        lesson = f"[{row.number} {row.title}](notebooks/{row.name}.ipynb)"
        lines.append([lesson, row.ends_with, row.minutes, to_do])
    return markdown.table(["lesson", "you end up with", "minutes", "exercises"], *lines)


def length(rows: list[LessonRow], exercise_minutes: int) -> str:
    """Return a sentence on how long the lessons are and, with the exercises, the course."""
    times = [row.minutes for row in rows]
    return (
        f"The {len(rows)} lessons take {min(times)} to {max(times)} minutes each, {hours(sum(times))} in all, and the "
        f"exercises another {hours(exercise_minutes)}."
    )


def hours(minutes: int) -> str:
    """Return a time in hours, rounded to the nearest half: 4 hours, 2½ hours."""
    halves = max(1, round(minutes / 30))
    number = "½" if halves == 1 else f"{halves // 2}{'½' * (halves % 2)}"
    return f"{number} hour{'s' * (halves > 2)}"
