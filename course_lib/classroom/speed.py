"""How long grading takes and how much memory it holds, beside nbgrader on the same notebooks."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from .record import Record, asked
from .sandbox import Limits
from .spread import Setting, course_version
from .week import Rules, grade_week

LESSONS = ("01", "02")  # ten exercises
RELEASE = "week1"


def measure(
    root: Path, sizes: Sequence[int], beside: int, workers: int, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Grade classes of several sizes, and a small one with nbgrader in the same run.

    Every student hands in the teacher's own solutions, so that everything runs and every mark must be full.

    Args:
        root: the repository.
        sizes: of the classes, in rising order.
        beside: how many students nbgrader grades.
        workers: processes of ours; nbgrader has one and can't use more.
        say: is told what is done.

    Returns:
        Plain data: seconds of each class, megabytes at each hundredth student, seconds a student of nbgrader.

    Raises:
        RuntimeError: a mark was not full, or nbgrader failed: what was measured would mean nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder)
        nbgrader = _nbgrader(root, there / "nbgrader", beside)
        say(f"nbgrader: {nbgrader:.2f} s a student")
        classes = []
        for size in sizes:
            seconds, memory = _ours(root, there / f"class{size}", size, workers)
            classes.append({"students": size, "seconds": round(seconds, 2), "megabytes": memory})
            say(f"course grade, {size} students: {seconds:.1f} s, {seconds / size:.3f} s a student")
            shutil.rmtree(there / f"class{size}")
    return {
        "exercises": len(asked(LESSONS)),
        "workers": workers,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "nbgrader": {"students": beside, "seconds_a_student": round(nbgrader, 2)},
        "classes": classes,
    }


def _assignment(root: Path) -> str:
    """One notebook with the solutions of all these lessons, as nbgrader and we get it."""
    import nbformat

    sheets = [
        nbformat.read(root / "notebooks" / "solutions" / f"{lesson}_exercises.ipynb", as_version=4)
        for lesson in LESSONS
    ]
    whole = sheets[0]
    whole.cells = [cell for sheet in sheets for cell in sheet.cells]
    for number, cell in enumerate(whole.cells):
        cell.id = f"cell-{number}"
    return nbformat.writes(whole)


def _ours(root: Path, folder: Path, students: int, workers: int) -> tuple[float, dict[int, float]]:
    (folder / "in").mkdir(parents=True)
    notebook = _assignment(root)
    for number in range(students):
        (folder / "in" / f"student{number:05}.ipynb").write_text(notebook, encoding="utf-8")
    memory: dict[int, float] = {}
    done = [0]

    def one_more() -> None:
        done[0] += 1
        if done[0] == min(10, students) or done[0] % 100 == 0:
            memory[done[0]] = _megabytes()

    record = Record(RELEASE, "", "", asked(LESSONS))
    setting = Setting(Limits(), course=course_version())
    began = time.perf_counter()
    results = grade_week(
        folder / "in",
        record,
        folder / "out",
        Rules(),
        setting,
        workers=workers,
        begin=lambda _: one_more,
        say=lambda _: None,
    )
    seconds = time.perf_counter() - began
    if any(graded.points != graded.possible for graded in results) or len(results) != students:
        raise RuntimeError("a right answer did not get its mark: what was measured would mean nothing.")
    return seconds, memory


def _megabytes() -> float:
    """Memory that this process and all below it hold for themselves; forks share most of theirs."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, AttributeError):  # gone in between; no such number on this system
            continue
    return round(total / 2**20, 1)


def _nbgrader(root: Path, folder: Path, students: int) -> float:
    """Seconds a student of `nbgrader autograde`."""
    source = folder / "source" / RELEASE
    source.mkdir(parents=True)
    notebook = _assignment(root)
    (source / "exercises.ipynb").write_text(notebook, encoding="utf-8")
    for number in range(students):
        mine = folder / "submitted" / f"student{number:05}" / RELEASE
        mine.mkdir(parents=True)
        (mine / "exercises.ipynb").write_text(notebook, encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(f"c = get_config()\nc.CourseDirectory.root = {str(folder)!r}\n")
    _run(folder, "generate_assignment", RELEASE)
    began = time.perf_counter()
    _run(folder, "autograde", RELEASE)
    seconds = time.perf_counter() - began
    if len(list((folder / "autograded").glob(f"*/{RELEASE}/*.ipynb"))) != students:
        raise RuntimeError("nbgrader did not grade everything: what was measured would mean nothing.")
    return seconds / students


def _run(folder: Path, *words: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # nbgrader starts alembic
    command = [sys.executable, "-m", "nbgrader", *words]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"nbgrader {words[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
