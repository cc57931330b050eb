"""Write the plan for a class into the page for teachers, with the minutes that the front page gives."""

from dataclasses import dataclass
from pathlib import Path

from .lesson_table import LessonRow, read_walk
from .markdown import table

LENGTH = 90  # minutes


@dataclass(frozen=True)
class Session:
    """Lessons that a class works through together, and the question that they answer."""

    lessons: tuple[str, ...]
    question: str


SESSIONS = (
    Session(("00", "01"), "Who looks at whom?"),
    Session(("02", "03"), "Who may not look at whom, and what are several heads for?"),
    Session(("04", "05"), "What do `view` and `transpose` do to memory, and why does one projection serve all heads?"),
    Session(("06",), "What do shared keys and values save?"),
    Session(("15",), "How do you find a mistake that no error reports?"),
)


def parts(root: Path) -> dict[str, str]:
    """Return the plan of `teach.md`."""
    return {"sessions": plan(read_walk(root))}


def plan(rows: list[LessonRow]) -> str:
    """Return the sessions as a table, with their minutes in class and at home.

    Raises:
        ValueError: The lessons of a session take longer than a session.
    """
    known, lines = {row.number: row for row in rows}, []
    for number, session in enumerate(SESSIONS, 1):
        lessons = [known[lesson] for lesson in session.lessons]
        practised = [row for row in lessons if row.exercises]
        in_class = sum(row.minutes for row in lessons)
        if in_class > LENGTH:
            raise ValueError(f"Session {number} has {in_class} minutes of lessons and lasts {LENGTH}: move a lesson.")
        links = ", ".join(f"[{row.number}](notebooks/{row.name}.ipynb)" for row in lessons)
        sheets = ", ".join(f"[{row.number}](notebooks/exercises/{row.number}_exercises.ipynb)" for row in practised)
        at_home = sum(row.exercise_minutes for row in practised)
        lines.append((number, f"{links}: {in_class} min", f"{sheets}: {at_home} min", session.question))
    return table(("session", "lessons in class", "exercises at home", "the question that it answers"), *lines)
