"""The cells of one exercise, with nbgrader's marks and metadata, as solutions and students' sheets have them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from course_lib.exercises import Exercise

WIDTH = 118  # of a line of Markdown
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def exercise_cells(heading: str, exercise: Exercise, sheet: int | None = None) -> list[NotebookNode]:
    """Return the cells of one exercise: its text, what is given, the solution, the check and the hints.

    Args:
        heading: Of the exercise in its notebook.
        exercise: What is asked for.
        sheet: The number of the sheet, where the exercise is one student's own.
    """
    name = exercise.name
    effort = f"Difficulty {exercise.difficulty} of 5, about {exercise.minutes} minutes."
    cells = [markdown_cell([f"## {heading}", effort, *exercise.prompt.split("\n\n")])]
    if exercise.given:
        cells.append(code_cell(exercise.given.strip()))
    cells.append(code_cell(solution_cell(exercise), nbgrader=_graded(name, solution=True)))
    check = f'check("{name}", {name}{f", sheet={sheet}" if sheet is not None else ""})'
    hidden = f"### BEGIN HIDDEN TESTS\nassert {check}.passed\n### END HIDDEN TESTS"
    cells.append(code_cell(f"{hidden}\n{check}", nbgrader=_graded(f"check_{name}", points=exercise.difficulty)))
    hints = []
    for at, hint in enumerate(exercise.hints, start=1):
        hints += [f"<details><summary>Hint {at}</summary>", hint, "</details>"]
    return [*cells, markdown_cell(hints)]


def solution_cell(exercise: Exercise) -> str:
    """Return the solution with nbgrader's markers around what the learner writes.

    That is everything below a function's first line, and in a class everything in its methods below
    `super().__init__()`; the whole cell where the exercise has a stub of its own.
    """
    source = inspect.getsource(exercise.solution).rstrip()
    if exercise.stub:
        return f"{BEGIN}\n{source}\n{END}"
    lines = source.splitlines()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    outer = [node for node in functions if node.col_offset == (4 if inspect.isclass(exercise.solution) else 0)]
    for node in sorted(outer, key=lambda node: -node.lineno):
        first = node.body[0]
        if "super().__init__()" in lines[first.lineno - 1] and len(node.body) > 1:
            first = node.body[1]
        indent = " " * (node.col_offset + 4)
        lines.insert(node.end_lineno or len(lines), indent + END)
        lines.insert(first.lineno - 1, indent + BEGIN)
    return "\n".join(lines)


def _graded(name: str, *, solution: bool = False, points: int | None = None) -> dict[str, Any]:
    metadata = {"grade": not solution, "grade_id": name, "locked": not solution, "schema_version": 3}
    metadata |= {"points": points} if points is not None else {}
    return metadata | {"solution": solution, "task": False}


def code_cell(source: str, **metadata: Any) -> NotebookNode:
    from nbformat import v4

    return v4.new_code_cell(source, metadata=metadata)


def markdown_cell(paragraphs: list[str]) -> NotebookNode:
    from nbformat import v4

    wrapped = []
    for paragraph in paragraphs:
        plain = "\n" not in paragraph and not paragraph.startswith(("[Open", "|", "- ", "#"))
        lines = textwrap.wrap(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False) if plain else None
        wrapped.append("\n".join(line.rstrip() for line in lines or paragraph.splitlines()))
    return v4.new_markdown_cell("\n\n".join(wrapped))
