"""Measure how long grading takes and how much memory it needs, compared with nbgrader on the same notebooks."""

import itertools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from course_grader import GradingPolicy, Release, WorkerConfig, grade_release, released_exercises
from course_grader.sandbox import ResourceLimits
from course_lib.about import version

LESSONS = ("01", "02")  # ten exercises
RELEASE = "week1"
CLASS_SIZES = (10, 30, 100, 300, 1000)
WITH_NBGRADER = 10  # students


def measure(root: Path) -> dict[str, Any]:
    """Grade classes of several sizes with a process per core, and a small one with nbgrader, which can use only one.

    Every student submits the teacher's own solutions, so every exercise runs and every mark must be full. A sentence
    per step is printed.

    Returns:
        Plain data: seconds of each class, megabytes at each hundredth student, nbgrader's seconds per student; with
        each, the load of the machine when it began: above 0, other programs had a share of the cores.

    Raises:
        RuntimeError: A mark was not full, or nbgrader failed, so the measurement would mean nothing.
    """
    notebook, workers = _assignment(root), os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        nbgrader_load = _load()
        nbgrader = _nbgrader(Path(folder) / "nbgrader", notebook)
        print(f"nbgrader: {nbgrader:.2f} s a student, load {nbgrader_load}")
        classes = []
        for size in CLASS_SIZES:
            there = Path(folder) / f"class{size}"
            load = _load()
            seconds, memory = _ours(there, notebook, size, workers)
            classes.append({"students": size, "seconds": round(seconds, 2), "load": load, "megabytes": memory})
            print(f"course grade, {size} students: {seconds:.1f} s, {seconds / size:.3f} s a student, load {load}")
            shutil.rmtree(there)
    return {
        "exercises": len(released_exercises(LESSONS)),
        "workers": workers,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "nbgrader": {"students": WITH_NBGRADER, "seconds_a_student": round(nbgrader, 2), "load": nbgrader_load},
        "classes": classes,
    }


def _load() -> float:
    """Return how many processes have wanted a core in the last minute; 0 where the system does not say."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def _assignment(root: Path) -> str:
    """Join the solutions of all these lessons in one notebook, which nbgrader and the course both grade."""
    import nbformat

    folder = root / "notebooks" / "solutions"
    sheets = [nbformat.read(folder / f"{lesson}_exercises.ipynb", as_version=4) for lesson in LESSONS]
    whole = sheets[0]
    whole.cells = [cell for sheet in sheets for cell in sheet.cells]
    for number, cell in enumerate(whole.cells):
        cell.id = f"cell-{number}"
    return nbformat.writes(whole)


def _ours(folder: Path, notebook: str, students: int, workers: int) -> tuple[float, dict[int, float]]:
    """Return the seconds that a class takes, and number of students -> megabytes after so many."""
    source = folder / "in"
    source.mkdir(parents=True)
    for number in range(students):
        (source / f"student{number:05}.ipynb").write_text(notebook, encoding="utf-8")
    memory: dict[int, float] = {}
    graded = itertools.count(1)

    def advance() -> None:
        done = next(graded)
        if done == min(10, students) or done % 100 == 0:
            memory[done] = _megabytes()

    release = Release(RELEASE, "", "", released_exercises(LESSONS))
    config = WorkerConfig(ResourceLimits(), course=version())
    options = {"workers": workers, "begin": lambda _: advance, "say": lambda _: None}
    began = time.perf_counter()
    results = grade_release(source, release, folder / "out", GradingPolicy(), config, **options)
    seconds = time.perf_counter() - began
    if any(result.points != result.possible for result in results) or len(results) != students:
        raise RuntimeError("a correct answer did not get full marks, so the measurement would be meaningless.")
    return seconds, memory


def _megabytes() -> float:
    """Measure the memory that this process and its children hold for themselves; forks share most of theirs."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, AttributeError):  # the process has ended, or this system does not report the value
            continue
    return round(total / 2**20, 1)


def _nbgrader(folder: Path, notebook: str) -> float:
    """Return the seconds that `nbgrader autograde` takes per student."""
    source = folder / "source" / RELEASE
    source.mkdir(parents=True)
    (source / "exercises.ipynb").write_text(notebook, encoding="utf-8")
    for number in range(WITH_NBGRADER):
        mine = folder / "submitted" / f"student{number:05}" / RELEASE
        mine.mkdir(parents=True)
        (mine / "exercises.ipynb").write_text(notebook, encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(f"c = get_config()\nc.CourseDirectory.root = {str(folder)!r}\n")
    _run(folder, "generate_assignment", RELEASE)
    began = time.perf_counter()
    _run(folder, "autograde", RELEASE)
    seconds = time.perf_counter() - began
    if len(list((folder / "autograded").glob(f"*/{RELEASE}/*.ipynb"))) != WITH_NBGRADER:
        raise RuntimeError("nbgrader did not grade every notebook, so the measurement would be meaningless.")
    return seconds / WITH_NBGRADER


def _run(folder: Path, *words: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # nbgrader starts alembic
    command = [sys.executable, "-m", "nbgrader", *words]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"nbgrader {words[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
