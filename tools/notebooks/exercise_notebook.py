"""Make the notebooks of a lesson's exercises from their objects: the teacher's, with solutions, and the learners'."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_grader import student_notebook

from .address import Address, read_address
from .lesson_files import EXERCISES, SOLUTIONS, Lesson

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from course_lib.exercises import Exercise, ExerciseSet

SUFFIX = "_exercises"  # behind the number of the lesson: the name of both notebooks
WIDTH = 118  # of a line of Markdown
FIRST_WITH_REVIEW = "01"  # before lesson 01 there is nothing to ask about
JUDGED = (
    "Any right way passes, with loops, lists or NumPy on the way, unless a task speaks of gradients. What has a shape "
    "is returned as a tensor, of the dtype of the inputs; made of plain numbers, it may be float32. A check comes with "
    "float64 and with float32, with axes of size 1 and with long ones, and with scores of thousands."
)
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def generated_notebooks(root: Path) -> list[Lesson]:
    """List the solutions and the learners' sheet of each set of exercises, stored already or not."""
    from course_lib.exercises import SETS  # here, because each pytest that runs notebooks would import PyTorch for it

    return [
        Lesson(f"{number}{SUFFIX}", root / "notebooks" / folder) for number in SETS for folder in (SOLUTIONS, EXERCISES)
    ]


def make_notebook(lesson: Lesson) -> NotebookNode:
    """Return the solutions of a set of exercises, or the sheet that nbgrader makes of them, without outputs.

    Raises:
        ValueError: There are no such exercises, or nbgrader refuses the solutions; the message names the notebook.
    """
    from course_lib.exercises import SETS

    exercises = SETS.get(lesson.name.removesuffix(SUFFIX))
    if exercises is None:
        raise ValueError(f"{lesson.label}: course_lib/exercises has no exercises to make it from; remove the notebook.")
    solutions = solution_notebook(exercises, read_address(lesson.folder.parents[1]))
    if lesson.folder.name == SOLUTIONS:
        return solutions
    try:
        return student_notebook(solutions)
    except ValueError as error:
        raise ValueError(f"{lesson.label}: {error}") from error


def solution_notebook(exercises: ExerciseSet, address: Address) -> NotebookNode:
    """Return the teacher's notebook of a set of exercises, with nbgrader's marks and metadata, without outputs."""
    from nbformat import v4

    head = [
        f"# Exercises: {exercises.title}",
        f"[Open in Colab]({address.colab(f'{SOLUTIONS}/{exercises.lesson}{SUFFIX}')})",
        *exercises.intro.split("\n\n"),
        JUDGED,
    ]
    cells = [_markdown(head), _code(address.setup_cell, tags=["setup"]), _code(exercises.imports)]
    if exercises.lesson > FIRST_WITH_REVIEW:
        cells += _review_cells(exercises.lesson)
    for number, exercise in enumerate(exercises.exercises, start=1):
        cells += _exercise_cells(number, exercise)
    for text, code in exercises.last:
        cells += [_markdown(text.split("\n\n")), _code(code)]
    cells += [_markdown(["## Where you stand", *exercises.after.split("\n\n")]), _code("progress()")]
    return v4.new_notebook(cells=cells)


def _review_cells(lesson: str) -> list[NotebookNode]:
    """Ask three questions from earlier lessons; the answers are gaps, so the cell can be run before they are filled."""
    text = "Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others."
    return [
        _markdown(["## Before you begin: three questions from earlier lessons", text]),
        _code(f'review("{lesson}")'),
        _code(f'review("{lesson}", [..., ..., ...])  # your three answers in place of the dots'),
    ]


def _exercise_cells(number: int, exercise: Exercise) -> list[NotebookNode]:
    name = exercise.name
    effort = f"Difficulty {exercise.difficulty} of 5, about {exercise.minutes} minutes."
    cells = [_markdown([f"## {number}. {exercise.title}", effort, *exercise.prompt.split("\n\n")])]
    if exercise.given:
        cells.append(_code(exercise.given.strip()))
    cells.append(_code(solution_cell(exercise), nbgrader=_graded(name, solution=True)))
    check = f'check("{name}", {name})'
    hidden = f"### BEGIN HIDDEN TESTS\nassert {check}.passed\n### END HIDDEN TESTS"
    cells.append(_code(f"{hidden}\n{check}", nbgrader=_graded(f"check_{name}", points=exercise.difficulty)))
    hints = []
    for at, hint in enumerate(exercise.hints, start=1):
        hints += [f"<details><summary>Hint {at}</summary>", hint, "</details>"]
    return [*cells, _markdown(hints)]


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


def _code(source: str, **metadata: Any) -> NotebookNode:
    from nbformat import v4

    return v4.new_code_cell(source, metadata=metadata)


def _markdown(paragraphs: list[str]) -> NotebookNode:
    from nbformat import v4

    wrapped = []
    for paragraph in paragraphs:
        plain = "\n" not in paragraph and not paragraph.startswith(("[Open", "|", "- ", "#"))
        lines = textwrap.wrap(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False) if plain else None
        wrapped.append("\n".join(line.rstrip() for line in lines or paragraph.splitlines()))
    return v4.new_markdown_cell("\n\n".join(wrapped))
