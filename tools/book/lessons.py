"""Show lessons and exercises in the book; the download buttons lead to the notebooks themselves."""

import ast
import re
import shutil
from itertools import takewhile
from pathlib import Path
from typing import Any

import nbformat

from .markdown import indexed

GLOSSARY = re.compile(r"```\{glossary\}\n(.*?)\n```", re.DOTALL)
BOLD = re.compile(r"\*\*([\w\s-]+)\*\*")
LINKED_LESSON = re.compile(r"\(notebooks/(\w+)\.ipynb\)")
COLAB_LINE = re.compile(r"^\[Open in Colab\]\(.*\)\n+", re.MULTILINE)
NOTEBOOK_LINK = re.compile(r'(href="(?![a-z]+:)[^"#]+)\.ipynb(?=["#])')
MARKERS = re.compile(r"^ *### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\n?", re.MULTILINE)
SOLUTION = """\
<details><summary>Solution</summary>

One right way of many; `check` takes any.

```python
{code}
```

</details>"""


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


UNANSWERED = "[..., ..., ...]"  # the answers to the questions of `review`


def without_setup(notebook: Any) -> Any:
    """Remove what only a running notebook needs: the setup cell, and the link that the launch button replaces."""
    notebook.cells = [cell for cell in notebook.cells if "setup" not in cell.metadata.get("tags", [])]
    notebook.cells[0].source = COLAB_LINE.sub("", notebook.cells[0].source)
    return notebook


def with_folded_imports(notebook: Any) -> Any:
    """Fold the imports at the top of a lesson, so that its first screen shows what the lesson is about."""
    index, cell = next((index, cell) for index, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    imports = list(takewhile(lambda node: isinstance(node, (ast.Import, ast.ImportFrom)), ast.parse(cell.source).body))
    if imports:
        lines, end = cell.source.splitlines(), imports[-1].end_lineno
        folded = nbformat.v4.new_code_cell("\n".join(lines[:end]), metadata={"tags": ["hide-input"]})
        cell.source = "\n".join(lines[end:]).strip("\n")
        notebook.cells[index : index + 1] = [folded, cell] if cell.source else [folded]
    return notebook


def with_page_links(notebook: Any) -> Any:
    """Lead the links in stored outputs to the book's pages; Sphinx itself does so in text cells only."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/html" in data:
                data["text/html"] = NOTEBOOK_LINK.sub(r"\1.html", data["text/html"])
    return notebook


def with_solutions(exercises: Any, solutions: Any) -> Any:
    """Fold the solution of each exercise below its hints, and remove the outputs of what the learner has not written.

    Raises:
        ValueError: An exercise has no solution.
    """
    answers = {_id(cell): MARKERS.sub("", cell.source).strip("\n") for cell in solutions.cells if _id(cell)}
    open_exercise = None
    for cell in exercises.cells:
        if cell.cell_type == "code":
            unwritten = "nbgrader" in cell.metadata or cell.source == "progress()" or UNANSWERED in cell.source
            cell.outputs = [] if unwritten else cell.outputs
        elif open_exercise and cell.source.startswith("<details>"):
            cell.source += f"\n\n{SOLUTION.format(code=answers[open_exercise])}"
            open_exercise = None
        if cell.metadata.get("nbgrader", {}).get("solution"):
            open_exercise = _id(cell)
            if open_exercise not in answers:
                raise ValueError(f"The exercise {open_exercise} has no solution: run `course exercises`.")
    if open_exercise:
        raise ValueError(f"The exercise {open_exercise} has no hints, so its solution has no place.")
    return exercises


def _id(cell: Any) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def with_terms(notebook: Any, terms: list[str]) -> Any:
    """Append the glossary's terms that point to a lesson, so that a search for any of them finds the lesson."""
    if terms:
        links = ", ".join(f"{{term}}`{term}`" for term in terms)
        cell = nbformat.v4.new_markdown_cell(f"{indexed(terms)}**In the glossary:** {links}.")
        notebook.cells.append(cell)
    return notebook


def with_linked_terms(notebook: Any, terms: list[str]) -> Any:
    """Lead from each term that a lesson introduces, which is set in bold there, to its meaning in the glossary."""
    unlinked = {term.casefold(): term for term in terms}

    def linked(match: re.Match[str]) -> str:
        words = " ".join(match[1].split())
        name = next((name for name in (words.casefold(), words.casefold().removesuffix("s")) if name in unlinked), None)
        return match[0] if name is None else f"**{{term}}`{words} <{unlinked.pop(name)}>`**"

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = BOLD.sub(linked, cell.source)
    return notebook


def terms_of_lessons(text: str) -> dict[str, list[str]]:
    """Read the glossary's page: file name of a lesson, without the suffix -> the terms that point to it.

    An entry is one or more lines with a term each and, indented below them, their meaning.
    """
    by_lesson: dict[str, list[str]] = {}
    for entry in "\n\n".join(GLOSSARY.findall(text)).split("\n\n"):
        terms = _terms(entry)
        for lesson in LINKED_LESSON.findall(entry):
            by_lesson.setdefault(lesson, []).extend(terms)
    return by_lesson


def _terms(entries: str) -> list[str]:
    return [line for line in entries.splitlines() if line and not line.startswith(" ")]


def write_lessons(root: Path, source: Path) -> None:
    """Write every lesson and every exercise to the book's folder."""
    glossary = (root / "book" / "glossary.md").read_text(encoding="utf-8")
    terms = terms_of_lessons(glossary)
    every = _terms(GLOSSARY.findall(glossary)[0])
    (source / "exercises").mkdir(parents=True)
    for path in sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        lesson = with_linked_terms(with_page_links(with_folded_imports(without_setup(read(path)))), every)
        lesson = with_terms(lesson, terms.get(path.stem, []))
        nbformat.write(lesson, source / path.name)
    for path in sorted((root / "notebooks" / "exercises").glob("[0-9][0-9]_*.ipynb")):
        notebook = with_solutions(read(path), read(root / "notebooks" / "solutions" / path.name))
        nbformat.write(without_setup(notebook), source / "exercises" / path.name)


def copy_notebooks(root: Path, html: Path) -> None:
    """Copy the notebooks themselves to the target of the download buttons."""
    for path in (html / "_sources" / "notebooks").rglob("*.ipynb"):
        shutil.copyfile(root / path.relative_to(html / "_sources"), path)
