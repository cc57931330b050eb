"""Reading and writing the two files of a lesson: the ``.ipynb`` (with outputs) and the ``.py`` (py:percent)."""

import hashlib
from pathlib import Path
from typing import Any

from course_lib.lessons.discover import Lesson
from course_lib.lessons.whole import write_text

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {  # as JupyterLab writes it, but for the version: other tools know by it how to convert and to highlight
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}  # in Colab and in JupyterLab; for the setup cell


def read_ipynb(path: Path) -> Any:
    """Read a stored notebook, outputs included."""
    import nbformat

    return nbformat.read(path, as_version=4)


def read_py(path: Path) -> Any:
    """Read a lesson's source as a notebook without outputs."""
    import jupytext

    return jupytext.read(path, fmt="py:percent")


def write_ipynb(notebook: Any, lesson: Lesson) -> None:
    """Store a notebook tidily: metadata that tools need and no other; ids that depend on the source alone."""
    import nbformat

    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: set[str] = set()
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(kept_metadata(cell))
        cell.id = _cell_id(cell, seen)
    lesson.ipynb.parent.mkdir(exist_ok=True)
    write_text(lesson.ipynb, nbformat.writes(notebook) + "\n")


def kept_metadata(cell: Any) -> dict[str, Any]:
    """Return the metadata that a cell is stored with: tags, nbgrader's, and what folds the setup cell."""
    kept = {key: cell.metadata[key] for key in ("tags", "nbgrader") if cell.metadata.get(key)}
    return kept | (FOLDED if "setup" in kept.get("tags", ()) else {})


def write_py(notebook: Any, lesson: Lesson) -> None:
    """Write a lesson's source from a notebook, as JupyterLab does when it saves the pair."""
    import jupytext
    from jupytext.config import load_jupytext_config

    plain = notebook.copy()
    plain.metadata = notebook.metadata.copy()
    plain.metadata["kernelspec"] = dict(KERNELSPEC)
    lesson.py.parent.mkdir(exist_ok=True)
    config = load_jupytext_config(str(lesson.py))
    write_text(lesson.py, jupytext.writes(plain, fmt="py:percent", config=config))


def _cell_id(cell: Any, seen: set[str]) -> str:
    """Name a cell by its source, so that a diff shows an id only where it shows a change."""
    repeat = 0
    while (name := hashlib.sha256(f"{cell.cell_type}\n{cell.source}\n{repeat}".encode()).hexdigest()[:8]) in seen:
        repeat += 1
    seen.add(name)
    return name
