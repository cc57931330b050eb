"""Put the course's solutions in place of wrong helpers, to see whether an answer fails only because it calls them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection

from course_grader.submissions import Cell, Notebook, parse
from course_lib.exercises import exercise_of_sheet

FIRST_NUMBER = 1_000_000  # of the cells that are added: above all of a student's


def with_solutions(
    notebook: Notebook, name: str, wrong: Collection[str], left_out: Collection[int] = (), sheet: int | None = None
) -> tuple[tuple[str, ...], list[tuple[int, str]]]:
    """Return the wrong answers that an answer mentions, and the cells of the notebook with solutions in their place.

    Args:
        notebook: What was handed in.
        name: The exercise whose answer is looked at.
        wrong: The other exercises whose answers are wrong; all are replaced, because those that it calls may call more.
        left_out: The numbers of cells that are not run.
        sheet: The number of the student's own sheet, if it is one.
    """
    mine = [cell for cell in notebook.cells if name in (cell.exercise, *cell.defines)]
    mentioned = {used for cell in mine for used in _names(cell.plain[0])}
    called = tuple(other for other in wrong if other in mentioned)
    without_cell = [other for other in wrong if not any(_holds(cell, other) for cell in notebook.cells)]
    cells: list[tuple[int, str]] = []
    for cell in notebook.cells:
        replaced = [other for other in wrong if _holds(cell, other)] + (without_cell if cell in mine else [])
        if cell.number not in left_out:
            cells.append((cell.number, cell.plain[0]))
        cells += [
            (FIRST_NUMBER + len(cells), inspect.getsource(exercise_of_sheet(other, sheet).solution))
            for other in replaced
        ]
    return called, cells


def _holds(cell: Cell, name: str) -> bool:
    return name in (cell.exercise, *cell.defines)


def _names(source: str) -> set[str]:
    module = parse(source)
    return {node.id for node in ast.walk(module) if isinstance(node, ast.Name)} if module else set()
