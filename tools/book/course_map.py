"""The path of the course as a map: its lessons in four parts, for the front page and for every lesson."""

from dataclasses import dataclass

from .lesson_table import LessonRow

PARTS = {  # the number of the first lesson of each part -> its name, and the head whose colour it has
    "00": ("One head", 0),
    "03": ("Several heads", 1),
    "06": ("Shared heads, and caches", 7),
    "13": ("See, speed up, debug, build", 3),
}


@dataclass(frozen=True)
class Part:
    """Consecutive lessons, and what they are about."""

    name: str
    head: int  # whose colour it has
    lessons: tuple[LessonRow, ...]


def course_map(rows: list[LessonRow]) -> list[Part]:
    """Divide the lessons, which are in reading order, into the parts of the course.

    Raises:
        ValueError: A part begins with a lesson that does not exist.
    """
    missing = ", ".join(sorted(PARTS.keys() - {row.number for row in rows}))
    if missing:
        raise ValueError(f"A part of the course begins with lesson {missing}, which does not exist: change PARTS.")
    starts = [*PARTS, "99"]
    ends = zip(PARTS.values(), starts, starts[1:], strict=False)
    return [
        Part(name, head, tuple(row for row in rows if first <= row.number < after))
        for (name, head), first, after in ends
    ]


def as_list(parts: list[Part]) -> str:
    """Return the map as the front page's list, with what the learner ends up with."""
    lines = []
    for part in parts:
        lessons = "\n".join(
            f'<li><a href="notebooks/{row.name}.html"><span class="number">{row.number}</span> {row.title}</a></li>'
            for row in part.lessons
        )
        lines.append(
            f'<li style="--part: var(--head-{part.head})"><strong>{part.name}</strong>\n<ol>\n{lessons}\n</ol></li>'
        )
    return '<ol class="path">\n' + "\n".join(lines) + "\n</ol>"
