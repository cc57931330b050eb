"""Read and write the files of a notebook: the `.ipynb` (with outputs) and, of a lesson, the `.py` (py:percent)."""

import hashlib
from pathlib import Path
from typing import Any

from course_grader import KERNELSPEC, kept_metadata
from course_lib.atomic_file import write_text

from .lesson_files import Lesson

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
    """Read the source of a lesson, as a notebook without outputs."""
    import jupytext

    return jupytext.read(path, fmt="py:percent")


def write_ipynb(notebook: Any, lesson: Lesson) -> None:
    """Store a notebook as `stored_text` writes it."""
    lesson.ipynb.parent.mkdir(exist_ok=True)
    write_text(lesson.ipynb, stored_text(notebook))


def stored_text(notebook: Any) -> str:
    """Return the text that a notebook is stored as, after changing its metadata and ids.

    It keeps the metadata that tools need and no other; ids depend on the source alone.
    """
    import nbformat

    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: set[str] = set()
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(kept_metadata(cell))
        cell.id = _cell_id(cell, seen)
    return nbformat.writes(notebook) + "\n"


def write_py(notebook: Any, lesson: Lesson) -> None:
    """Write the source of a lesson as JupyterLab does when it saves the pair."""
    import jupytext
    from jupytext.config import load_jupytext_config

    plain = notebook.copy()
    plain.metadata = notebook.metadata.copy()
    plain.metadata["kernelspec"] = dict(KERNELSPEC)
    lesson.py.parent.mkdir(exist_ok=True)
    config = load_jupytext_config(str(lesson.py))
    write_text(lesson.py, jupytext.writes(plain, fmt="py:percent", config=config))


def _cell_id(cell: Any, seen: set[str]) -> str:
    """Return an id that depends on the source of a cell, so that an id changes only if the source does."""
    repeat = 0
    while (name := hashlib.sha256(f"{cell.cell_type}\n{cell.source}\n{repeat}".encode()).hexdigest()[:8]) in seen:
        repeat += 1
    seen.add(name)
    return name
