"""Read and write the two files of a notebook: the `.ipynb` (with outputs) and the `.py` (py:percent)."""

import hashlib
from pathlib import Path
from typing import Any

from course_grader import KERNELSPEC, kept_metadata, student_notebook
from course_lib.atomic_file import write_text

from .discover import EXERCISES, Lesson

LANGUAGE = {  # as JupyterLab writes it, without the version, because tools that convert and highlight need it
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}


def read_ipynb(path: Path) -> Any:
    import nbformat

    return nbformat.read(path, as_version=4)


def read_py(path: Path) -> Any:
    """Read the source of a notebook, as a notebook without outputs."""
    import jupytext

    return jupytext.read(path, fmt="py:percent")


def write_ipynb(notebook: Any, lesson: Lesson) -> None:
    """Store a notebook with the metadata that tools need and no other, and with ids that depend on the source alone."""
    import nbformat

    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: set[str] = set()
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(kept_metadata(cell))
        cell.id = _cell_id(cell, seen)
    lesson.ipynb.parent.mkdir(exist_ok=True)
    write_text(lesson.ipynb, nbformat.writes(notebook) + "\n")


def write_py(notebook: Any, lesson: Lesson) -> None:
    """Write the source of a notebook as JupyterLab does when it saves the pair."""
    import jupytext
    from jupytext.config import load_jupytext_config

    plain = notebook.copy()
    plain.metadata = notebook.metadata.copy()
    plain.metadata["kernelspec"] = dict(KERNELSPEC)
    lesson.py.parent.mkdir(exist_ok=True)
    config = load_jupytext_config(str(lesson.py))
    write_text(lesson.py, jupytext.writes(plain, fmt="py:percent", config=config))


def write_student(solution: Lesson) -> Lesson:
    """Write the .py of the learner's notebook and return the pair that it belongs to.

    Raises:
        ValueError: nbgrader refuses the teacher's notebook; the message names it.
    """
    student = Lesson(solution.name, solution.folder.parent / EXERCISES)
    student.folder.mkdir(exist_ok=True)
    try:
        write_py(student_notebook(read_py(solution.py)), student)
    except ValueError as error:
        raise ValueError(f"{solution.label}: {error}") from error
    return student


def _cell_id(cell: Any, seen: set[str]) -> str:
    """Return an id that depends on the source of a cell, so that an id changes only if the source does."""
    repeat = 0
    while (name := hashlib.sha256(f"{cell.cell_type}\n{cell.source}\n{repeat}".encode()).hexdigest()[:8]) in seen:
        repeat += 1
    seen.add(name)
    return name
