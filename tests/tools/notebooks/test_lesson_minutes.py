"""Lesson 00 lists every lesson with its title and its minutes, and their sum in hours."""

import re
from pathlib import Path

from tools.book.lesson_table import hours

SOURCES = Path(__file__).resolve().parents[3] / "notebooks" / "sources"
START = (SOURCES / "00_start_here.py").read_text("utf-8")
ROWS = re.findall(r"^# \| \[?(\d\d) ([^|\]]+?)(?:\]\((\w+)\.ipynb\))? \| [^|]+ \| (\S+) \|$", START, re.MULTILINE)


def stated(source):
    """The minutes that a lesson states in digits, or None."""
    found = re.search(r"\*\*It takes\*\* about (\d+) minutes", source.read_text("utf-8"))
    return found and found[1]


def test_the_lessons_are_listed_in_order():
    assert [number for number, *_ in ROWS] == sorted(source.name[:2] for source in SOURCES.glob("[0-9][0-9]_*.py"))


def test_titles_and_minutes_are_the_lessons_own():
    for number, title, name, minutes in ROWS:
        for source in SOURCES.glob(f"{number}_*.py"):
            if own := stated(source):
                assert minutes == own and name in ("", source.stem), f"lesson {number} says {own} minutes"
                assert f"# # {title}\n" in source.read_text("utf-8")


def test_the_total_is_their_sum():
    assert f"Together they take about {hours(sum(int(minutes) for *_, minutes in ROWS))}." in START
