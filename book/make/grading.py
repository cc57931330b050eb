"""How long grading takes, as the last `make grade-bench` stored it."""

import json
from pathlib import Path

from book.make import tables
from book.make.mistake_page import figure
from course_lib.pictures import Picture, lines

PICTURE = "grading_cost.svg"


def write_grading(stored: Path, page: Path) -> None:
    """Fill in the picture and the table that `grade.md` leaves open.

    Raises:
        ValueError: nothing has been stored yet.
    """
    if not stored.exists():
        raise ValueError(f"{stored.name} is missing: run `make grade-bench ARGS=--save` (a quarter of an hour).")
    data = json.loads(stored.read_text(encoding="utf-8"))
    picture = cost(data)
    picture.save(page.parent / PICTURE)
    text = page.read_text(encoding="utf-8")
    text = text.replace("{{ cost }}", figure(picture, PICTURE)).replace("{{ measured }}", table(data))
    page.write_text(text, encoding="utf-8")


def cost(data: dict) -> Picture:
    """Draw how seconds grow with the class."""
    ours = {one["students"]: one["seconds"] for one in data["classes"]}
    beside = data["nbgrader"]
    theirs = {beside["students"]: beside["students"] * beside["seconds_a_student"]}
    return lines(
        {"course grade": ours, "nbgrader autograde": theirs},
        title="What a class costs",
        x="students",
        y="seconds",
        note=f"{data['exercises']} exercises a student, {data['workers']} processes; {data['machine']}.",
    )


def table(data: dict) -> str:
    """Lay the numbers out, a row a class."""
    beside = data["nbgrader"]
    rows = [["command", "students", "seconds", "seconds a student", "memory"]]
    theirs = beside["students"] * beside["seconds_a_student"]
    rows.append(
        ["nbgrader autograde", str(beside["students"]), f"{theirs:.0f}", f"{beside['seconds_a_student']:.2f}", ""]
    )
    for one in data["classes"]:
        held = sorted(one["megabytes"].values())
        memory = f"{held[0]:,.0f} MB" if len(held) == 1 else f"{held[0]:,.0f} to {held[-1]:,.0f} MB"
        a_student = one["seconds"] / one["students"]
        rows.append(["course grade", f"{one['students']:,}", f"{one['seconds']:.0f}", f"{a_student:.2f}", memory])
    return tables.table(rows)
