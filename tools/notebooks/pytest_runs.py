"""Run pytest on the library, or with nbval on notebooks, and count what passed."""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from .lesson_files import CELL_TIMEOUT, EXERCISES, SOLUTIONS, Lesson


@dataclass
class Tally:
    """How many tests of a file passed, failed and were skipped, and the seconds they took."""

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
    """One call of pytest: its exit status, its seconds, and a tally per file."""

    status: int
    seconds: float
    files: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def total(self) -> Tally:
        """Add up all files; a run that ended early without a failing test counts as one failure."""
        passed, failed, skipped = (
            sum(getattr(tally, kind) for tally in self.files.values()) for kind in ("passed", "failed", "skipped")
        )
        named = [f"{file}: {name}" for file, tally in self.files.items() for name in tally.failures]
        return Tally(passed, failed or int(self.status not in (0, 5)), skipped, self.seconds, named)


def run_pytest(
    root: Path,
    arguments: list[str],
    workers: int = 1,
    environment: dict[str, str] | None = None,
    *,
    quiet: bool = False,
) -> PytestRun:
    """Run pytest in a separate process in the folder `root`, show its output, and read its results from a JUnit file.

    If it is quiet, its output is shown only where it failed, at the end.

    The cores are divided among the workers: with all cores in each, PyTorch is four times slower. Without an
    environment, the process has the variables of this one.
    """
    threads = max(1, (os.cpu_count() or 1) // workers)
    variables = {"OMP_NUM_THREADS": str(threads), **(os.environ if environment is None else environment)}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        options = ["-p", "course_lib.command.fast_startup", f"--junitxml={results}"]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        start = time.perf_counter()
        output = subprocess.PIPE if quiet else None
        done = subprocess.run(command, cwd=root, env=variables, stdout=output, stderr=output, text=True)
        if done.returncode and quiet:
            print(done.stdout, done.stderr, sep="\n")
        run = PytestRun(done.returncode, time.perf_counter() - start)
        if results.exists():
            _read_results(results, run)
    return run


def lesson_arguments(lessons: list[Lesson], kernel: str, workers: int = 1, cells: str = "whole") -> list[str]:
    """Return pytest's arguments for nbval, strict, on these lessons, each in a kernel of its own.

    Their cells run whole, twice, or "short": up to the first that is tagged `long`.
    """
    parallel = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 and len(lessons) > 1 else []
    if parallel:  # the last lessons train most: begun first, they leave no core idle at the end
        sheets = EXERCISES, SOLUTIONS
        lessons = sorted(lessons, key=lambda lesson: (lesson.folder.name not in sheets, lesson.name), reverse=True)
        parallel.append("--no-loadscope-reorder")
    strict = ["--nbval", *[f"--{cells}"] * (cells != "whole")]
    strict += [f"--nbval-kernel-name={kernel}", f"--nbval-cell-timeout={CELL_TIMEOUT}"]
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
    """Return the name of a test file, or a notebook's label, from JUnit's `notebooks.exercises.01_exercises`."""
    *folders, name = classname.removesuffix(".ipynb").split(".")
    return f"{folders[-1]}/{name}" if folders and folders[-1] in (EXERCISES, SOLUTIONS) else name
