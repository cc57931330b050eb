"""Run stored notebooks with another environment's Python, and compare what they show with what is stored."""

import copy
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.lessons.compare import same_output
from course_lib.lessons.discover import Lesson
from course_lib.lessons.health_sources import UNCHECKED
from course_lib.lessons.notebook_file import read_ipynb
from course_lib.lessons.outputs import all_texts, count_pictures, first_difference, merge_streams
from course_lib.lessons.version_results import NotebookResult

CELL_TIMEOUT = 300  # seconds: a slow runner may train a model here


@dataclass(frozen=True)
class Kernel:
    """A way to start a kernel: the interpreter, the module that starts it, what is added to its surroundings."""

    python: Path
    module: str = "ipykernel_launcher"
    settings: dict[str, str] = field(default_factory=dict)

    def surroundings(self) -> dict[str, str]:
        """Return the environment variables of the kernel: ours, without what would lead it back to our Python."""
        ours = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        path = os.pathsep.join([str(self.python.parent), ours.get("PATH", "")])
        return {**ours, "COURSE_DEVICE": "cpu", "PATH": path, **self.settings}

    def manager(self) -> Any:
        """Return Jupyter's manager of a kernel that is started this way."""
        from jupyter_client import AsyncKernelManager
        from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

        class OneKernel(KernelSpecManager):
            def get_kernel_spec(_, kernel_name: str) -> KernelSpec:
                return KernelSpec(argv=[str(self.python), "-m", self.module, "-f", "{connection_file}"])

        return AsyncKernelManager(kernel_name="another-environment", kernel_spec_manager=OneKernel())


def execute(notebook: Any, kernel: Kernel, folder: Path) -> str | None:
    """Run a notebook in place, going on after errors, which are then among its outputs.

    Args:
        notebook: its outputs are replaced.
        kernel: how it is started.
        folder: the working folder.

    Returns:
        One sentence when the kernel did not last to the end.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError

    at = {"cell": 0}

    def remember(cell: Any, cell_index: int) -> None:
        at["cell"] = cell_index

    resources = {"metadata": {"path": str(folder)}}
    options = {"timeout": CELL_TIMEOUT, "allow_errors": True, "record_timing": False, "on_cell_start": remember}
    client = NotebookClient(notebook, resources=resources, **options)
    client.km = kernel.manager()  # set afterwards, so that the client stops it in the end
    try:
        client.execute(stderr=subprocess.DEVNULL, env=kernel.surroundings())
    except CellTimeoutError:
        broke = f"a cell took longer than {CELL_TIMEOUT} s"
    except RuntimeError:  # nbclient's DeadKernelError, or jupyter_client's own when it did not even start
        broke = "the kernel died"
    else:
        return None
    notebook.cells[at["cell"]].execution_count = None  # it began, and did not end
    return broke


def run_notebook(lesson: Lesson, kernel: Kernel, folder: Path) -> NotebookResult:
    """Run a stored notebook from top to bottom and compare it with itself; the file stays as it is."""
    stored = read_ipynb(lesson.ipynb)
    made = copy.deepcopy(stored)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    start = time.perf_counter()
    broke = execute(made, kernel, folder)
    result = compare_notebooks(stored, made, lesson.label)
    result.seconds = time.perf_counter() - start
    if broke:
        result.problems.insert(0, broke)
    return result


def compare_notebooks(stored: Any, made: Any, label: str) -> NotebookResult:
    """Compare the outputs of each code cell, but where a cell's tags say that they may differ; an error never may."""
    result = NotebookResult(label)
    both = zip(stored.cells, made.cells, strict=True)
    for number, (old, new) in enumerate((pair for pair in both if pair[0].cell_type == "code"), start=1):
        free = UNCHECKED in old.metadata.get("tags", ())
        found = difference(old.outputs, merge_streams(new.outputs), free=free)
        if new.execution_count is None:
            found = "it did not run to its end"
        result.cells += not free
        result.equal += not free and found is None
        if found:
            result.problems.append(f"cell {number}, `{first_line(old.source)}`: {found}")
    return result


def difference(stored: list[Any], made: list[Any], *, free: bool = False) -> str | None:
    """Say how two cells' outputs differ, or None; the pixels of a picture are not compared, its being there is.

    Args:
        stored: the outputs in the file.
        made: the outputs of this run.
        free: only an error counts.
    """
    errors = [text for kind, text in all_texts(made) if kind == "error"]
    if errors:
        return errors[0]
    if free:
        return None
    unexpected = [text for kind, text in all_texts(made) if kind == "stderr"]
    if unexpected and not any(kind == "stderr" for kind, _ in all_texts(stored)):
        return f"stderr: {unexpected[0].strip().splitlines()[-1]}"
    before, after = count_pictures(stored), count_pictures(made)
    if before != after:
        return f"{before} picture(s) stored, {after} made"
    old, new = _compared(stored), _compared(made)
    same = len(old) == len(new) and all(
        kind == other and same_output(text, said) for (kind, text), (other, said) in zip(old, new, strict=True)
    )
    if same:
        return None
    kinds, others = ([kind for kind, _ in compared] for compared in (old, new))
    return first_difference(stored, made) if kinds == others else f"{kinds} stored, {others} made"


def first_line(source: str) -> str:
    """Return the first line of a cell that is not empty, cut to a width that a report can show."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    return lines[0][:60] if lines else ""


def _compared(outputs: list[Any]) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in all_texts(outputs) if not kind.startswith("image/")]
