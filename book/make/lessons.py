"""Lessons and exercises as the book shows them; what a reader downloads stays the notebook itself."""

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat

from book.make.entries import indexed
from book.make.glossary import words_of_lessons

COLAB_LINE = re.compile(r"^\[Open in Colab\]\(.*\)\n+", re.MULTILINE)
MARKERS = re.compile(r"^ *### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\n?", re.MULTILINE)
SOLUTION = """\
<details><summary>Solution</summary>

One right way of many; `check` takes any.

```python
{code}
```

</details>"""


def read(path: Path) -> Any:
    """Read a notebook."""
    return nbformat.read(path, as_version=4)


def without_setup(notebook: Any) -> Any:
    """Leave out what only a running notebook needs: the setup cell, and the link that the launch button replaces."""
    notebook.cells = [cell for cell in notebook.cells if "setup" not in cell.metadata.get("tags", [])]
    notebook.cells[0].source = COLAB_LINE.sub("", notebook.cells[0].source)
    return notebook


def with_solutions(exercises: Any, solutions: Any) -> Any:
    """Fold the solution of each exercise under its hints, and leave out what `check` says of an empty answer.

    Raises:
        ValueError: an exercise has no solution.
    """
    answers = {_id(cell): MARKERS.sub("", cell.source).strip("\n") for cell in solutions.cells if _id(cell)}
    cells, waiting = [], None
    for cell in exercises.cells:
        if cell.cell_type == "code":
            cell.outputs = []
        elif waiting and cell.source.startswith("<details>"):
            cell.source += f"\n\n{SOLUTION.format(code=answers[waiting])}"
            waiting = None
        cells.append(cell)
        if cell.metadata.get("nbgrader", {}).get("solution"):
            waiting = _id(cell)
            if waiting not in answers:
                raise ValueError(f"The exercise {waiting} has no solution: run `course exercises`.")
    if waiting:
        raise ValueError(f"The exercise {waiting} has no hints, so its solution has no place.")
    exercises.cells = cells
    return exercises


def _id(cell: Any) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def with_words(notebook: Any, words: list[str]) -> Any:
    """End a lesson with the glossary's words that point to it, so that a search for one of them finds it."""
    if words:
        terms = ", ".join(f"{{term}}`{word}`" for word in words)
        cell = nbformat.v4.new_markdown_cell(f"{indexed(words)}**In the glossary:** {terms}.")
        notebook.cells.append(cell)
    return notebook


def write_lessons(root: Path, source: Path) -> None:
    """Write every lesson and every exercise into the book's folder."""
    words = words_of_lessons((root / "book" / "glossary.md").read_text(encoding="utf-8"))
    (source / "exercises").mkdir(parents=True)
    for path in sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        lesson = with_words(without_setup(read(path)), words.get(path.stem, []))
        nbformat.write(lesson, source / path.name)
    for path in sorted((root / "notebooks" / "exercises").glob("[0-9][0-9]_*.ipynb")):
        notebook = with_solutions(read(path), read(root / "notebooks" / "solutions" / path.name))
        nbformat.write(without_setup(notebook), source / "exercises" / path.name)


def give_the_notebooks(root: Path, html: Path) -> None:
    """Put the notebooks themselves where the download buttons lead."""
    for path in (html / "_sources" / "notebooks").rglob("*.ipynb"):
        shutil.copyfile(root / path.relative_to(html / "_sources"), path)
