"""Run a notebook from its source, top to bottom in a new kernel, and store its outputs."""

import copy
import os
import re
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from .exercise_notebook import make_notebook
from .jupytext_pairs import carry_outputs, cell_key, freshen
from .lesson_files import CELL_TIMEOUT, Lesson
from .notebook_file import read_ipynb, read_py, write_ipynb
from .outputs import first_difference, merge_streams, same_outputs

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LINE_IN_CELL = re.compile(r"Cell In\[\d+\], line (\d+)")


class LessonFailed(Exception):
    """A cell raised an error, took too long or killed its kernel; the message names cell, line and error."""


@dataclass
class RunResult:
    """The result of a run: its time, the number of code cells, and a line for each cell whose outputs changed."""

    seconds: float
    cells: int
    changes: list[str]
    state: str


def run_lesson(lesson: Lesson, kernel: str = "attention-cpu", timeout: float = CELL_TIMEOUT) -> RunResult:
    """Run a lesson from its `.py`, or exercises or solutions from their objects, and rewrite the `.ipynb`.

    A stored output is kept if the new output equals it up to the last digits, so that a diff shows only what changed.
    `timeout` is in seconds for each cell.

    Raises:
        LessonFailed: A cell failed; the stored notebook is unchanged.
        ValueError: The exercises or solutions can't be made.
    """
    notebook = make_notebook(lesson) if lesson.is_generated else read_py(lesson.py)
    stored = read_ipynb(lesson.ipynb) if lesson.ipynb.exists() else None
    start = time.perf_counter()
    _execute(notebook, lesson, kernel, timeout)
    seconds = time.perf_counter() - start
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    changes = _keep_equal_outputs(code, notebook, stored) if stored else []
    before = lesson.ipynb.read_bytes() if stored else b""
    write_ipynb(notebook, lesson)
    if stored is None:
        state = "new"
    elif changes:
        state = f"{len(changes)} changed"
    else:
        state = "unchanged" if lesson.ipynb.read_bytes() == before else "tidied"
    if not lesson.is_generated:
        freshen(lesson)
    return RunResult(seconds, len(code), changes, state)


def _execute(notebook: Any, lesson: Lesson, kernel: str, timeout: float) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    at = {"cell_index": 0}
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name=kernel,
        resources={"metadata": {"path": str(lesson.folder)}},
        record_timing=False,
        on_cell_start=lambda **started: at.update(cell_index=started["cell_index"]),
    )
    try:
        # The process's stderr is not an output of a cell. What is stored must not depend on anyone's progress.
        client.execute(stderr=subprocess.DEVNULL, env={**os.environ, "COURSE_PROGRESS": "off"})
    except CellTimeoutError:
        raise LessonFailed(f"{_cell_name(notebook, lesson, **at)}: took longer than {timeout:g} s.") from None
    except DeadKernelError:
        raise LessonFailed(f"{_cell_name(notebook, lesson, **at)}: the kernel died.") from None
    except CellExecutionError as error:
        match = _LINE_IN_CELL.search(_ANSI.sub("", error.traceback))
        name = _cell_name(notebook, lesson, **at, line=int(match[1]) if match else 1)
        raise LessonFailed(f"{name}: {error.ename}: {error.evalue}") from None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)


def _cell_name(notebook: Any, lesson: Lesson, cell_index: int, line: int = 1) -> str:
    """Name a cell by its number among the code cells, from 1, and the source line; of a lesson, where that is, too."""
    number = sum(cell.cell_type == "code" for cell in notebook.cells[: cell_index + 1])
    lines = notebook.cells[cell_index].source.lstrip("\n").splitlines() or [""]  # as IPython does
    shown = f"{lesson.label}, code cell {number}, `{lines[min(line, len(lines)) - 1].strip()}`"
    if lesson.is_generated:
        return shown
    rows = lesson.py.read_text(encoding="utf-8").split("\n")
    starts = [i for i in range(len(rows)) if rows[i : i + len(lines)] == lines]
    where = f"{lesson.py.name}:{starts[0] + line}" if len(starts) == 1 else lesson.py.name
    return f"{shown} ({where})"


def _keep_equal_outputs(code: list[Any], notebook: Any, stored: Any) -> list[str]:
    old = copy.deepcopy(notebook)
    carry_outputs(old, stored)
    changes = []
    for number, (cell, before) in enumerate(zip(code, [c for c in old.cells if c.cell_type == "code"], strict=True), 1):
        if before.execution_count is None:
            changes.append(f"cell {number}: new or rewritten: {cell_key(cell)[1].splitlines()[0][:60]!r}")
        elif same_outputs(before.outputs, cell.outputs):
            cell.outputs = before.outputs
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = cell.execution_count
        else:
            changes.append(f"cell {number}: {first_difference(before.outputs, cell.outputs)}")
    return changes
