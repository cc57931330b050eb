"""Run a lesson from its source, top to bottom in a fresh kernel, and store what it shows."""

import copy
import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from course_lib.lessons.discover import Lesson
from course_lib.lessons.notebook_file import read_ipynb, read_py, write_ipynb
from course_lib.lessons.outputs import first_difference, merge_streams, same_outputs
from course_lib.lessons.pairs import carry_outputs, cell_key, freshen

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LINE_IN_CELL = re.compile(r"Cell In\[\d+\], line (\d+)")


class LessonFailed(Exception):
    """A cell of a lesson raised, ran out of time or lost its kernel; the message names cell, line and error."""


@dataclass
class RunResult:
    """What one run of a lesson gave: its time, its code cells, and a line for each cell whose outputs changed."""

    seconds: float
    cells: int
    changes: list[str] = field(default_factory=list)
    state: str = "unchanged"


def run_lesson(lesson: Lesson, kernel: str = "attention-cpu", timeout: float = 120) -> RunResult:
    """Run a lesson and rewrite its ``.ipynb``.

    An old output is kept where the new one says the same up to the last digits, so that a diff shows only what changed.

    Args:
        lesson: the lesson; its ``.py`` is what runs.
        kernel: the name of the Jupyter kernel.
        timeout: seconds that one cell may take.

    Raises:
        LessonFailed: a cell failed; the stored notebook is left as it was.
    """
    notebook = read_py(lesson.py)
    stored = read_ipynb(lesson.ipynb) if lesson.ipynb.exists() else None
    start = time.perf_counter()
    _execute(notebook, lesson, kernel, timeout)
    seconds = time.perf_counter() - start
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    result = RunResult(seconds, len(code))
    result.changes = _keep_equal_outputs(code, notebook, stored)
    before = lesson.ipynb.read_bytes() if stored else b""
    write_ipynb(notebook, lesson)
    if stored is None:
        result.state = "new"
    elif result.changes:
        result.state = f"{len(result.changes)} changed"
    elif lesson.ipynb.read_bytes() != before:
        result.state = "tidied"
    freshen(lesson)
    return result


def _execute(notebook: Any, lesson: Lesson, kernel: str, timeout: float) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    at = {"cell": 0}

    def remember(cell: Any, cell_index: int) -> None:
        at["cell"] = cell_index

    resources = {"metadata": {"path": str(lesson.folder)}}
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name=kernel, resources=resources, record_timing=False, on_cell_start=remember
    )
    try:
        # stderr is the kernel's own chatter, not the cells'; and what is stored doesn't depend on anyone's progress
        client.execute(stderr=subprocess.DEVNULL, env={**os.environ, "COURSE_PROGRESS": "off"})
    except CellTimeoutError:
        raise LessonFailed(f"{_place(notebook, lesson, at['cell'])}: took longer than {timeout:g} s.") from None
    except DeadKernelError:
        raise LessonFailed(f"{_place(notebook, lesson, at['cell'])}: the kernel died.") from None
    except CellExecutionError as error:
        found = _LINE_IN_CELL.search(_ANSI.sub("", error.traceback))
        place = _place(notebook, lesson, at["cell"], int(found[1]) if found else 1)
        raise LessonFailed(f"{place}: {error.ename}: {error.evalue}") from None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)


def _place(notebook: Any, lesson: Lesson, index: int, line: int = 1) -> str:
    """Name a cell as people count them: among the code cells, from 1; with the source line and where it stands."""
    number = sum(cell.cell_type == "code" for cell in notebook.cells[: index + 1])
    lines = notebook.cells[index].source.lstrip("\n").splitlines() or [""]  # IPython, too, drops leading blank lines
    source = lines[min(line, len(lines)) - 1]
    rows = lesson.py.read_text(encoding="utf-8").split("\n")
    fits = [i for i in range(len(rows)) if rows[i : i + len(lines)] == lines]
    where = f"{lesson.py.name}:{fits[0] + line}" if len(fits) == 1 else lesson.py.name
    return f"{lesson.name}, code cell {number}, `{source.strip()}` ({where})"


def _keep_equal_outputs(code: list[Any], notebook: Any, stored: Any) -> list[str]:
    if stored is None:
        return []
    old = copy.deepcopy(notebook)
    carry_outputs(old, stored)
    changes = []
    for number, (cell, before) in enumerate(zip(code, [c for c in old.cells if c.cell_type == "code"], strict=True), 1):
        if before.execution_count is None:
            changes.append(f"cell {number}: new or rewritten: {cell_key(cell)[1].splitlines()[0][:60]!r}")
        elif same_outputs(before.outputs, cell.outputs):
            cell.outputs = _renumber(before.outputs, cell.execution_count)
        else:
            changes.append(f"cell {number}: {first_difference(before.outputs, cell.outputs)}")
    return changes


def _renumber(outputs: list[Any], count: int) -> list[Any]:
    for output in outputs:
        if output.output_type == "execute_result":
            output.execution_count = count
    return outputs
