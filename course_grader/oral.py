"""Questions for five minutes with each student, about what they handed in themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.exercises import Exercise, FromSource, InputGenerator, LearnerError, exercise_of_sheet
from course_lib.oral import OralQuestion, is_about

from .grading import GradingPolicy, GradingTask
from .judging import RemoteNotebook
from .manifest import Release
from .pipeline import prepare_task
from .reports import display_name, render
from .sandbox import Sandbox
from .submissions import Notebook, find_submissions, parse, select_notebooks
from .worker_config import WorkerConfig

MOST_TRIED = 4  # answers of one student
MOST_TEXT, MOST_CODE = 600, 6000  # characters of what a student's process sends
NOT_ASKED = (ValueError, RecursionError, MemoryError, LookupError, AttributeError, StopIteration)  # of odd code


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
    source = "\n\n".join(cell.plain[0] for cell in notebook.cells if exercise.name in cell.defines)
    built = [argument.build() if isinstance(argument, FromSource) else argument for argument in arguments]
    return tuple(_received(asked, source, exercise.name, built)) if isinstance(asked, list) else ()


def _received(asked: list[Any], source: str, name: str, arguments: Sequence[Any]) -> Iterator[OralQuestion]:
    """Yield what a student's process reports, as far as it may be asked about what was handed in; the page escapes it.

    The process runs code that could put easy questions in the place of ours.
    """
    text = ""  # the answer's code, which the first question shows
    for each in asked[:3]:
        if isinstance(each, list) and len(each) == 3 and all(isinstance(part, str) for part in each):
            question = OralQuestion(*each)
            text = text or question.code
            with suppress(*NOT_ASKED):
                module = parse(text) if len(text) <= MOST_CODE and text.strip() in source else None
                if module and getattr(module.body[-1], "name", "") == name and is_about(question, text, arguments):
                    yield question._replace(text=question.text[:MOST_TEXT], answer=question.answer[:MOST_TEXT])
