"""Make the teacher's notebook of a lesson's exercises from their objects."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.atomic_file import write_text

from .address import Address, read_address
from .discover import SOLUTIONS, Lesson

if TYPE_CHECKING:
    from course_lib.exercises import Exercise, ExerciseSet

WIDTH = 118  # of a line of Markdown, without the "# " in front of it
FIRST_WITH_REVIEW = "01"  # before lesson 01 there is nothing to ask about
JUDGED = (
    "Any right way passes, with loops, lists or NumPy on the way, unless a task speaks of gradients. What has a shape "
    "is returned as a tensor, of the dtype of the inputs. A check comes with float64 and with float32, with axes of "
    "size 1 and with long ones, and with scores of thousands."
)
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def write_solutions(root: Path) -> None:
    """Write the source of the teacher's notebook of each set of exercises."""
    from course_lib.exercises import SETS  # here, because each pytest that runs notebooks would import PyTorch for it

    for exercises in SETS.values():
        lesson = Lesson(f"{exercises.lesson}_exercises", root / "notebooks" / SOLUTIONS)
        write_text(lesson.py, solutions_source(exercises, read_address(root)))


def solutions_source(exercises: ExerciseSet, address: Address) -> str:
    """Write the source of the notebook with the solutions, as py:percent."""
    name = f"{exercises.lesson}_exercises"
    head = [
        f"# Exercises: {exercises.title}",
        f"[Open in Colab]({address.colab(f'{SOLUTIONS}/{name}')})",
        *exercises.intro.split("\n\n"),
        JUDGED,
    ]
    cells = [_markdown(head), f'# %% tags=["setup"]\n{address.setup_cell}', f"# %%\n{exercises.imports}"]
    if exercises.lesson > FIRST_WITH_REVIEW:
        cells += _review_cells(exercises.lesson)
    for number, exercise in enumerate(exercises.exercises, start=1):
        cells += _exercise_cells(number, exercise)
    for text, code in exercises.last:
        cells += [_markdown(text.split("\n\n")), f"# %%\n{code}"]
    cells += [_markdown(["## Where you stand", *exercises.after.split("\n\n")]), "# %%\nprogress()"]
    return "\n\n".join(cells) + "\n"


def _review_cells(lesson: str) -> list[str]:
    """Ask three questions from earlier lessons; the answers are gaps, so the cell can be run before they are filled."""
    text = "Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others."
    return [
        _markdown(["## Before you begin: three questions from earlier lessons", text]),
        f'# %%\nreview("{lesson}")',
        f'# %%\nreview("{lesson}", [..., ..., ...])  # your three answers in place of the dots',
    ]


def _exercise_cells(number: int, exercise: Exercise) -> list[str]:
    name = exercise.name
    effort = f"Difficulty {exercise.difficulty} of 5, about {exercise.minutes} minutes."
    cells = [_markdown([f"## {number}. {exercise.title}", effort, *exercise.prompt.split("\n\n")])]
    if exercise.given:
        cells.append(f"# %%\n{exercise.given.strip()}")
    cells.append(f"{_graded(name, solution=True)}\n{solution_cell(exercise)}")
    hidden = f"### BEGIN HIDDEN TESTS\nassert check({name!r}, {name}).passed\n### END HIDDEN TESTS".replace("'", '"')
    check = f'check("{name}", {name})'
    cells.append(f"{_graded(f'check_{name}', points=exercise.difficulty)}\n{hidden}\n{check}")
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


def _graded(name: str, *, solution: bool = False, points: int | None = None) -> str:
    metadata = {"grade": not solution, "grade_id": name, "locked": not solution, "schema_version": 3}
    metadata |= {"points": points} if points is not None else {}
    ordered = dict(sorted((metadata | {"solution": solution, "task": False}).items()))
    return f"# %% nbgrader={json.dumps(ordered)}"


def _markdown(paragraphs: list[str]) -> str:
    lines = ["# %% [markdown]"]
    for number, paragraph in enumerate(paragraphs):
        if number:
            lines.append("#")
        plain = "\n" not in paragraph and not paragraph.startswith(("[Open", "|", "- ", "#"))
        wrapped = textwrap.wrap(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False) if plain else None
        lines += [f"# {line}".rstrip() for line in (wrapped or paragraph.splitlines())]
    return "\n".join(lines)
