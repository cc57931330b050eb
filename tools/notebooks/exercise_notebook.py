"""Make the notebooks of a lesson's exercises from their objects: the teacher's, with solutions, and the learners'."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from course_grader import student_notebook
from course_grader.exercise_cells import code_cell, exercise_cells, markdown_cell

from .address import Address, read_address
from .lesson_files import EXERCISES, SOLUTIONS, Lesson

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from course_lib.exercises import ExerciseSet

SUFFIX = "_exercises"  # behind the number of the lesson: the name of both notebooks
FIRST_WITH_REVIEW = "01"  # before lesson 01 there is nothing to ask about
JUDGED = (
    "Any right way passes, with loops, lists or NumPy on the way, unless a task speaks of gradients. What has a shape "
    "is returned as a tensor, of the dtype of the inputs; made of plain numbers, it may be float32. A check comes with "
    "float64 and with float32, with axes of size 1 and with long ones, and with scores of thousands."
)


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
    cells = [markdown_cell(head), code_cell(address.setup_cell, tags=["setup"]), code_cell(exercises.imports)]
    if exercises.lesson > FIRST_WITH_REVIEW:
        cells += _review_cells(exercises.lesson)
    for number, exercise in enumerate(exercises.exercises, start=1):
        cells += exercise_cells(f"{number}. {exercise.title}", exercise)
    for text, code in exercises.last:
        cells += [markdown_cell(text.split("\n\n")), code_cell(code)]
    cells += [markdown_cell(["## Where you stand", *exercises.after.split("\n\n")]), code_cell("progress()")]
    return v4.new_notebook(cells=cells)


def _review_cells(lesson: str) -> list[NotebookNode]:
    """Ask three questions from earlier lessons; the answers are gaps, so the cell can be run before they are filled."""
    text = "Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others."
    return [
        markdown_cell(["## Before you begin: three questions from earlier lessons", text]),
        code_cell(f'review("{lesson}")'),
        code_cell(f'review("{lesson}", [..., ..., ...])  # your three answers in place of the dots'),
    ]
