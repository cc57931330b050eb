"""Questions for five minutes with each student, about what they handed in themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.exercises import Exercise, InputGenerator, LearnerError, exercise_of_sheet
from course_lib.oral import OralQuestion

from .grading import GradingPolicy, GradingTask
from .judging import RemoteNotebook
from .manifest import Release
from .pipeline import prepare_task
from .reports import display_name, render
from .sandbox import Sandbox
from .submissions import Notebook, find_submissions, select_notebooks
from .worker_config import WorkerConfig

MOST_TRIED = 4  # answers of one student
MOST_TEXT, MOST_CODE = 600, 6000  # characters of what a student's process sends


@dataclass(frozen=True)
class OralSheet:
    """The questions for one student.

    Attributes:
        student: The student's name.
        exercise: The exercise whose answer is asked about; "" if no answer runs.
        questions: With their answers.
    """

    student: str
    exercise: str = ""
    questions: tuple[OralQuestion, ...] = field(default=())


def oral_sheets(
    submissions: Path,
    release: Release,
    config: WorkerConfig,
    sandbox: Sandbox,
    advance: Callable[[], object] = lambda: None,
) -> list[OralSheet]:
    """Make a sheet for each student who handed in something, in the order of their names.

    Args:
        submissions, release, config: As in `grade_release`.
        sandbox: Where the answers run, with the course beside them.
        advance: Called after each student.

    Raises:
        ValueError: There are no submissions.
        NoSandbox: Students' code cannot be isolated here.
    """
    sheets = []
    for submission in find_submissions(submissions):
        sheets.append(_sheet(prepare_task(submission, release, GradingPolicy(), config, b""), sandbox))
        advance()
    return sheets


def oral_page(sheets: Sequence[OralSheet], release: Release) -> str:
    """Return the page that a teacher takes along; it loads no other file, and whatever students wrote is escaped."""
    return render("oral.html.j2", sheets=sheets, release=release)


def _sheet(task: GradingTask, sandbox: Sandbox) -> OralSheet:
    """Ask about the answer that allows the most questions: the longest ones are tried first."""
    names = [exercise.name for exercise in task.release.exercises]
    chosen = select_notebooks(task.notebooks, names, None, task.release.name).notebook_of
    best = OralSheet(display_name(task.student))
    by_length = sorted(chosen, key=lambda name: -_length(chosen[name], name))
    for name in by_length[:MOST_TRIED]:
        questions = _questions(task, exercise_of_sheet(name, task.sheet), chosen[name], sandbox)
        if len(questions) > len(best.questions):
            best = OralSheet(best.student, name, questions)
        if len(questions) > 2:
            break
    return best


def _length(notebook: Notebook, name: str) -> int:
    return max((len(cell.source) for cell in notebook.cells if name in cell.defines), default=0)


def _questions(task: GradingTask, exercise: Exercise, notebook: Notebook, sandbox: Sandbox) -> tuple[OralQuestion, ...]:
    seed = int.from_bytes(task.seed(exercise.name, notebook)[:4], "big")
    arguments = exercise.example(InputGenerator(seed))
    if not arguments:
        return ()
    cells = [(cell.number, cell.plain[0]) for cell in notebook.cells]
    with RemoteNotebook(sandbox, cells, [exercise.name], {}) as remote:
        try:
            remote.load()
            asked = remote.ask("ask_about", name=exercise.name, arguments=arguments, seed=seed).get("asked")
        except LearnerError:  # it does not run, and gets no question
            return ()
    return tuple(_received(asked)) if isinstance(asked, list) else ()


def _received(asked: list[Any]) -> list[OralQuestion]:
    """Return what a student's process reports, as far as it has the form of questions; the page escapes it."""
    limits = (MOST_TEXT, MOST_TEXT, MOST_CODE)
    return [
        OralQuestion(*(part[:most] for part, most in zip(each, limits, strict=True)))
        for each in asked[:3]
        if isinstance(each, list) and len(each) == 3 and all(isinstance(part, str) for part in each)
    ]
