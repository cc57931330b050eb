"""Why an exercise has no answer: the sentence for the student."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from course_lib.classroom.handed_in.cells import definitions, runnable, syntax_problem
from course_lib.exercises.catalogue import EXERCISES

if TYPE_CHECKING:
    from course_lib.classroom.handed_in.notebooks import Sheet

_LONGEST = 60  # comparing names of a million letters would take for ever


def missing(sheet: Sheet, name: str) -> str:
    """Say why an exercise isn't there, and what to do.

    Args:
        sheet: the notebook that was looked at.
        name: of the exercise.
    """
    cells = [cell for cell in sheet.cells if name in (cell.exercise, *cell.defines)]
    for cell in cells:
        code, left_out = runnable(cell.source)
        if problem := syntax_problem(code):
            return f"Python can't read cell {cell.number}, which is for `{name}`: {problem}."
        if left_out and name not in cell.defines:
            return f"There is no `{name}` in what you handed in. {left_out}"
    defining = [cell for cell in cells if name in cell.defines]
    if defining:
        return f"Cell {defining[-1].number} defines `{name}`, but when the notebook had run it was not there any more."
    start = f"There is no `{name}` in what you handed in"
    for cell in cells:
        if others := _others(cell.source):
            other = (difflib.get_close_matches(name, others, n=1, cutoff=0.0) or others)[0]
            return f"{start}; the cell of this exercise defines `{other}`: give it the name {name}."
    for cell in sheet.cells:
        if near := difflib.get_close_matches(name, _others(cell.source), n=1, cutoff=0.7):
            return f"{start}; cell {cell.number} defines `{near[0]}`: give it the name {name}."
    if any(cell.source.strip() for cell in cells):
        return f"{start}; the cell of this exercise doesn't define it: begin with `{_begin(name)}`."
    if cells:
        return f"{start}; the cell of this exercise is empty: write your answer there."
    return f"{start}, and its cell is gone: take it from the sheet again and write your answer there."


def _others(source: str) -> list[str]:
    """The names that a cell defines, without those of other exercises."""
    names = definitions(runnable(source)[0])[:100]
    return [name for name in names if name not in EXERCISES and len(name) <= _LONGEST]


def _begin(name: str) -> str:
    return f"class {name}" if name[0].isupper() else f"def {name}"
