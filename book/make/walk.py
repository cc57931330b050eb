"""The walk as the README tells it: one row a lesson."""

import re
from dataclasses import dataclass
from pathlib import Path

from book.make import tables

ROW = re.compile(
    r"^\| \[(?P<number>\d\d) (?P<title>[^\]]+)\]\(notebooks/(?P<name>\w+)\.ipynb\) \| (?P<ends_with>[^|]+?) "
    r"\| (?P<minutes>\d+) min \| (?P<exercises>[^|]*?)\|",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Row:
    """A lesson in the table: its number, title, file name, what the learner ends up with, and its time."""

    number: str
    title: str
    name: str
    ends_with: str
    minutes: int
    exercises: str


def read_walk(root: Path) -> list[Row]:
    """Read the rows of the README's table.

    Raises:
        ValueError: a lesson has no row, or there is a row without a lesson.
    """
    found = [match.groupdict() for match in ROW.finditer((root / "README.md").read_text(encoding="utf-8"))]
    rows = [Row(**{**row, "minutes": int(row["minutes"]), "exercises": row["exercises"].strip()}) for row in found]
    there = {path.stem for path in (root / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    off = there ^ {row.name for row in rows}
    if off:
        names = ", ".join(sorted(off))
        raise ValueError(f"The README's table and notebooks/ differ in {names}: give each lesson a row.")
    return rows


def table(rows: list[Row]) -> str:
    """Lay the walk out as a table for the front page."""
    lines = [["lesson", "you end up with", "minutes", "exercises"]]
    for row in rows:
        minutes = re.search(r"\[(\d+), (\d+) min\]", row.exercises)
        file = f"notebooks/exercises/{row.number}_exercises.ipynb"
        to_do = f"[{minutes[1]}, {minutes[2]} min]({file})" if minutes else ""
        lesson = f"[{row.number} {row.title}](notebooks/{row.name}.ipynb)"
        lines.append([lesson, row.ends_with, str(row.minutes), to_do])
    return tables.table(lines) + "\n"


def length(rows: list[Row], exercise_minutes: int) -> str:
    """Say in one sentence how long the lessons are and, with the exercises, the course."""
    times = [row.minutes for row in rows]
    return (
        f"The {len(rows)} lessons take {min(times)} to {max(times)} minutes each, {hours(sum(times))} in all, and the "
        f"exercises another {hours(exercise_minutes)}."
    )


def hours(minutes: int) -> str:
    """A time in hours, to the nearest half: 4 hours, 2½ hours."""
    halves = max(1, round(minutes / 30))
    number = "½" if halves == 1 else f"{halves // 2}{'½' * (halves % 2)}"
    return f"{number} hour{'s' * (halves > 2)}"
