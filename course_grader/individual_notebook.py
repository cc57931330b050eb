"""Add to a lesson's notebook what a release asks for: variants and questions of one student's own, one in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from course_lib.exercises import exercise_of_sheet, individual_exercises, written_exercises

from .exercise_cells import code_cell, exercise_cells, markdown_cell

if TYPE_CHECKING:
    from nbformat import NotebookNode

HEADING = "## Yours alone"
ABOUT = "This is sheet {}. Each has other questions with other numbers: compare ways with your friends, not answers."
GUESSES = (
    "May your teacher count, with those of the class, what you guessed in the lesson? Then write `True` in place of "
    "`False` and run this cell. What it prints goes along with this sheet, and nothing else does. It gives no points "
    "and costs none, and the report of the class names nobody."
)
LAST = 2  # cells at the end that say where the student stands


def individual_notebook(solution: Any, lesson: str, sheet: int) -> NotebookNode:
    """Return the teacher's notebook of a lesson with what one sheet has for itself; the given one stays as it is."""
    cells = list(solution.cells)
    for at, cell in enumerate(solution.cells):
        name = _answered(cell)
        if name and exercise_of_sheet(name, None).varies:
            first = at - 1  # its text; no exercise that varies has code that is given
            heading = cells[first].source.splitlines()[0].removeprefix("## ")
            own = exercise_cells(heading, exercise_of_sheet(name, sheet), sheet)
            cells[first : first + len(own)] = own  # as many cells: text, answer, check, hints
    own = [markdown_cell([HEADING, ABOUT.format(sheet)])]
    for exercise in individual_exercises(lesson, sheet):
        own += exercise_cells(exercise.title, exercise, sheet)
    return _with_cells(solution, cells, own)


def explained_notebook(solution: Any, lesson: str) -> NotebookNode:
    """Return the teacher's notebook of a lesson with its question in words; the given one stays as it is."""
    exercise = written_exercises()[f"explain_{lesson}"]
    return _with_cells(solution, solution.cells, exercise_cells(exercise.title, exercise))


def notebook_with_guesses(solution: Any, lesson: str) -> NotebookNode:
    """Return the teacher's notebook of a lesson with the cell that shares its guesses; the given one stays as it is."""
    share = f'from course_lib.exercises import share_guesses\n\nshare_guesses("{lesson}", agree=False)'
    return _with_cells(solution, solution.cells, [markdown_cell(["## Your guesses", GUESSES]), code_cell(share)])


def _with_cells(solution: Any, cells: list[NotebookNode], more: list[NotebookNode]) -> NotebookNode:
    """Return a copy of a notebook with these cells, and more of them before the last."""
    from nbformat import from_dict

    notebook: Any = from_dict(solution.copy())
    notebook.cells = [*cells[:-LAST], *more, *cells[-LAST:]]
    return notebook


def _answered(cell: Any) -> str:
    """Return the exercise that a cell answers; "" for any other cell."""
    marked = cell.metadata.get("nbgrader", {})
    return str(marked["grade_id"]) if marked.get("solution") else ""
