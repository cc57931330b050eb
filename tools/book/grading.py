"""Write the page on how long grading takes, from what the last `make grade-bench` stored."""

import json
from pathlib import Path

from course_lib.pictures import Picture, line_plot

from . import markdown
from .markdown import figure
from .parts import fill

PICTURE = "grading_cost.svg"


def write_grading(root: Path, page: Path) -> None:
    """Fill in the picture and the table of `grade.md`."""
    picture = cost(_stored(root))
    picture.save(page.parent / PICTURE)
    fill(page, {"cost": figure(picture, PICTURE), **parts(root)})


def parts(root: Path) -> dict[str, str]:
    """Return the table of `grade.md`."""
    return {"measured": table(_stored(root))}


def _stored(root: Path) -> dict:
    """Return the last measurement.

    Raises:
        ValueError: None is stored yet.
    """
    stored = root / "book" / "grading.json"
    if not stored.exists():
        raise ValueError(f"{stored.name} is missing: run `make grade-bench ARGS=--save` (about 15 minutes).")
    return json.loads(stored.read_text(encoding="utf-8"))


def cost(data: dict) -> Picture:
    """Draw the seconds against the size of the class."""
    ours = {size["students"]: size["seconds"] for size in data["classes"]}
    beside = data["nbgrader"]
    theirs = {beside["students"]: beside["students"] * beside["seconds_a_student"]}
    return line_plot(
        {"course grade": ours, "nbgrader autograde": theirs},
        title="What a class costs",
        xlabel="students",
        ylabel="seconds",
        note=f"{data['exercises']} exercises per student, {data['workers']} processes; {data['machine']}{_load(data)}.",
    )


def _load(data: dict) -> str:
    """Say that other programs had a share of the cores while it was measured, if they had."""
    loads = [timed.get("load", 0) for timed in (data["nbgrader"], *data["classes"])]
    busy = f"; a busy machine, load {min(loads):g} to {max(loads):g}"
    return busy if min(loads) > data["workers"] else ""


def table(data: dict) -> str:
    """Return the measurements as a table with a row per class."""
    beside = data["nbgrader"]
    students, each = beside["students"], beside["seconds_a_student"]
    rows = [["nbgrader autograde", students, f"{students * each:.0f}", f"{each:.2f}", ""]]
    for size in data["classes"]:
        least, most = min(size["megabytes"].values()), max(size["megabytes"].values())
        memory = f"{most:,.0f} MB" if least == most else f"{least:,.0f} to {most:,.0f} MB"
        per_student = size["seconds"] / size["students"]
        rows.append(["course grade", f"{size['students']:,}", f"{size['seconds']:.0f}", f"{per_student:.2f}", memory])
    return markdown.table(["command", "students", "seconds", "seconds per student", "memory"], *rows).rstrip()
