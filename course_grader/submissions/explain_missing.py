"""Explain to the student why a notebook holds no answer to an exercise."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from course_lib.exercises import gradable

from .notebook import Cell, Notebook
from .plain_python import defined_names, syntax_problem

_MAX_NAME = 60  # characters; comparing names of a million characters would never end


def explain_missing(notebook: Notebook, name: str, stops: Mapping[int, str] | None = None) -> str:
    """Explain why an exercise has no answer, and what the student can do.

    Args:
        notebook: The notebook.
        name: The exercise.
        stops: Cell -> why it was stopped, as the end of a sentence that begins with the cell.
    """
    cells = [cell for cell in notebook.cells if name in (cell.exercise, *cell.defines)]
    start = f"There is no `{name}` in what you handed in"
    if broken := _unrunnable_cell(cells, name, start):
        return broken
    defining = [cell for cell in cells if name in cell.defines]
    if stopped := [cell for cell in defining or cells if cell.number in (stops or {})]:
        number = stopped[-1].number
        return f"{start}: its cell {(stops or {})[number]}."
    if defining:
        return f"When the notebook had run, `{name}` was not there any more, although {defining[-1].label} defines it."
    if renamed := _similar_name(notebook, cells, name):
        return f"{start}; {renamed}: give it the name {name}."
    if any(cell.source.strip() for cell in cells):
        keyword = "class" if name[0].isupper() else "def"
        return f"{start}; the cell of this exercise doesn't define it: begin with `{keyword} {name}`."
    if cells:
        return f"{start}; the cell of this exercise is empty: write your answer there."
    return f"{start}, and its cell is gone: copy it from the released notebook and write your answer there."


def _unrunnable_cell(cells: list[Cell], name: str, start: str) -> str | None:
    """Return the sentence for the first cell that Python cannot parse, or whose code is not Python."""
    for cell in cells:
        code, remark = cell.plain
        if problem := syntax_problem(code):
            return f"Python can't read the cell of `{name}`: {problem}."
        if remark and name not in cell.defines:
            return f"{start}. {remark}"
    return None


def _similar_name(notebook: Notebook, cells: list[Cell], name: str) -> str | None:
    """Find a name that the answer may have: any name in the exercise's own cell, a similar name elsewhere."""
    for cell in cells:
        if others := _other_names(cell):
            other = (difflib.get_close_matches(name, others, n=1, cutoff=0.0) or others)[0]
            return f"the cell of this exercise defines `{other}`"
    for cell in notebook.cells:
        if similar := difflib.get_close_matches(name, _other_names(cell), n=1, cutoff=0.7):
            return f"{cell.label} defines `{similar[0]}`"
    return None


def _other_names(cell: Cell) -> list[str]:
    names = defined_names(cell.plain[0])[:100]
    return [name for name in names if name not in gradable() and len(name) <= _MAX_NAME]
