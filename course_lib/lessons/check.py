"""Run pytest, on the library or on lessons with nbval, and read back what passed."""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.lessons.discover import EXERCISES, SOLUTIONS, Lesson

CELL_TIMEOUT = 120  # seconds: a cell that kills its kernel is waited for that long


@dataclass
class Tally:
    """How many tests of one row passed, failed and were skipped, and the seconds they took."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.passed + self.failed

    @property
    def verdict(self) -> str:
        return f"{self.failed} FAILED" if self.failed else ("passed" if self.passed else "NOTHING RAN")


@dataclass
class PytestRun:
    """One call of pytest: its exit status, its wall time, and a tally for each file."""

    status: int
    seconds: float
    files: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def total(self) -> Tally:
        """Add the files up; a run that broke without a failing test counts as one failure."""
        rows = self.files.values()
        total = Tally(*(sum(getattr(row, part) for row in rows) for part in ("passed", "failed", "skipped")))
        total.seconds = self.seconds
        if self.status not in (0, 5) and not total.failed:
            total.failed = 1
        return total


def run_pytest(root: Path, arguments: list[str], workers: int = 1) -> PytestRun:
    """Run pytest in a process of its own, its output shown, and read its results from a JUnit file.

    The workers share the cores out: PyTorch would use all of them in each worker, and be four times slower for it.
    """
    threads = max(1, (os.cpu_count() or 1) // workers)
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        quick = ["-p", "course_lib.lessons.quick_start"]
        command = [sys.executable, "-m", "pytest", *quick, f"--junitxml={results}", *arguments]
        start = time.perf_counter()
        status = subprocess.run(command, cwd=root, env=environment).returncode
        run = PytestRun(status, time.perf_counter() - start)
        if results.exists():
            _read_results(results, run)
    return run


def lesson_arguments(lessons: list[Lesson], kernel: str, workers: int) -> list[str]:
    """Return pytest's arguments for nbval, strict, on these lessons: each is run twice in its kernel."""
    parallel = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 and len(lessons) > 1 else []
    strict = ["--nbval", "--twice", f"--nbval-kernel-name={kernel}", f"--nbval-cell-timeout={CELL_TIMEOUT}"]
    quiet = ["-q", "--no-header", "-p", "no:cacheprovider"]
    return [*strict, *parallel, *quiet, *(str(lesson.ipynb) for lesson in lessons)]


def _read_results(path: Path, run: PytestRun) -> None:
    for case in ET.parse(path).iter("testcase"):
        tally = run.files[_file(case.get("classname", ""))]
        tally.seconds += float(case.get("time", 0))
        if case.find("failure") is not None or case.find("error") is not None:
            tally.failed += 1
            tally.failures.append(case.get("name", ""))
        elif case.find("skipped") is not None:
            tally.skipped += 1
        else:
            tally.passed += 1


def _file(classname: str) -> str:
    """The name of a test file or a lesson's label from what JUnit calls it, ``notebooks.exercises.01_exercises``."""
    *folders, name = classname.removesuffix(".ipynb").split(".")
    return f"{folders[-1]}/{name}" if folders and folders[-1] in (EXERCISES, SOLUTIONS) else name
