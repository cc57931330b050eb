"""Grade one student: the code runs in a sandbox; inputs are drawn and outputs compared outside of it."""

from __future__ import annotations

import functools
import hashlib
import hmac
from dataclasses import dataclass, replace
from datetime import datetime

from course_lib.exercises import EXERCISES, NEEDS_REVIEW, Verdict, not_passed

from .judging import Budget, RemoteNotebook, judge_notebook, provided_code, stops
from .manifest import Release, ReleasedExercise
from .marks import Mark, StudentResult
from .sandbox import Sandbox
from .submissions import OWN_TIMESTAMP, Notebook, SubmittedNotebook, explain_missing, select_notebooks

MAX_REMARKS, MAX_SENTENCE = 20, 600


@dataclass(frozen=True)
class LatePolicy:
    """What a teacher decides about late submissions.

    Attributes:
        due: The time in seconds since 1970 after which a submission is late, or None.
        late_factor: What the points of late exercises are multiplied by, from 0 to 1.

    Raises:
        ValueError: `late_factor` is not from 0 to 1.
    """

    due: float | None = None
    late_factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.late_factor <= 1:
            raise ValueError(f"late_factor is {self.late_factor}: take a number from 0 (no points) to 1 (all of them).")


@dataclass(frozen=True)
class GradingTask:
    """Everything that is needed to grade one student, as data without any path of the teacher's machine.

    Attributes:
        student: The name of the folder or file.
        notebooks: What was submitted.
        remarks: What was noticed when the files were collected.
        release: The release that is graded.
        policy: How late submissions are graded.
        secret: The run's secret; inputs are drawn from it, the student's name and the file.
        digest: A checksum of all this but the secret.
    """

    student: str
    notebooks: tuple[SubmittedNotebook, ...]
    remarks: tuple[str, ...]
    release: Release
    policy: LatePolicy = LatePolicy()
    secret: bytes = b""
    digest: str = ""

    def seed(self, exercise: str, notebook: Notebook) -> bytes:
        """Return the seed of one exercise's inputs, which nobody without the secret can know.

        Each file that is handed in gets other inputs: feedback on one tells nothing about those of the next.
        """
        return hmac.digest(self.secret, f"{self.student}\0{exercise}\0{notebook.checksum}".encode(), hashlib.sha256)


def grade_student(task: GradingTask, sandbox: Sandbox, diagnosis_sandbox: Sandbox) -> StudentResult:
    """Grade one student.

    Args:
        task: What was submitted, and what was asked for.
        sandbox: Where answers run; of the course it holds only what an exercise provides.
        diagnosis_sandbox: Where wrong classes run again, with `diagnose` available. What it finds names a mistake; it
            never gives a mark.

    Returns:
        The result, with a mark for each exercise of the release, whatever was submitted.

    Raises:
        NoSandbox: Students' code cannot be isolated here.
    """
    names = [exercise.name for exercise in task.release.exercises]
    selection = select_notebooks(task.notebooks, names, task.policy.due, task.release.name)
    verdicts: dict[str, Verdict] = {}
    remarks = [*task.remarks, *selection.remarks]
    left_out = False
    budget = Budget(sandbox.limits.notebook)
    for group, notebook in _groups(selection.notebook_of):
        cells = [(cell.number, cell.plain[0]) for cell in notebook.cells]
        with RemoteNotebook(sandbox, cells, group, provided_code(group[0]), budget) as remote:
            seed = functools.partial(task.seed, notebook=notebook)
            verdicts |= judge_notebook(remote, notebook, seed, diagnosis_sandbox)
            remarks += _cell_remarks(remote, notebook)
            left_out |= bool(remote.ended or notebook.remarks)
    absent = _absent_lessons(task, names)
    remarks += [f"The notebook of lesson {lesson} was not handed in." for lesson in absent]
    marks = [
        _mark(one, verdicts.get(one.name), selection.late.get(one.name, False), task, absent)
        for one in task.release.exercises
    ]
    flags = {
        "a file can't be read": set(task.remarks) - {OWN_TIMESTAMP} or any(not one.notebook for one in task.notebooks),
        "it has a timestamp.txt of its own": OWN_TIMESTAMP in task.remarks,
        "a notebook is missing": absent,
        "cells were left out": left_out,
        "cells are gone": any("its cell is gone" in mark.verdict.message for mark in marks),
    }
    submitted_at = selection.submitted_at
    return StudentResult(
        task.student,
        tuple(marks),
        tuple(dict.fromkeys(remarks))[:MAX_REMARKS],
        datetime.fromtimestamp(submitted_at).astimezone().isoformat(timespec="seconds") if submitted_at else None,
        any(selection.late.values()),
        task.digest,
        tuple(flag for flag, holds in flags.items() if holds),
    )


def ungraded(task: GradingTask, reason: str) -> StudentResult:
    """Return a result in which every exercise needs the teacher's review, until a later run succeeds."""
    marks = tuple(
        Mark(Verdict(NEEDS_REVIEW, reason, lesson=one.lesson, name=one.name), one.title, 0.0, one.points)
        for one in task.release.exercises
    )
    return StudentResult(task.student, marks, (*task.remarks, reason), digest=task.digest, provisional=True)


def _groups(notebook_of: dict[str, Notebook]) -> list[tuple[list[str], Notebook]]:
    """Group the exercises that can share a process: those of one notebook that provide the same code of the course."""
    groups: dict[tuple, tuple[list[str], Notebook]] = {}
    for name, notebook in notebook_of.items():
        key = id(notebook), *provided_code(name).items()
        groups.setdefault(key, ([], notebook))[0].append(name)
    return list(groups.values())


def _cell_remarks(remote: RemoteNotebook, notebook: Notebook) -> list[str]:
    """Describe what happened to cells, as far as the student should know.

    A cell without an answer that misses a name is left out once another has stopped: it is only what follows.
    """
    remarks = []
    labels = {cell.number: cell.label for cell in notebook.cells}
    without_answer = {cell.number for cell in notebook.cells if cell.exercise is None}
    for number, reason in sorted(stops(remote).items()):
        kind = remote.raised.get(number, {}).get("kind") if number not in remote.ended else None
        follows = kind == "NameError" and remarks and number in without_answer
        if not follows and kind not in ("NotInGrading", "NotImplementedError"):
            remarks.append(f"{labels[number][0].upper()}{labels[number][1:]} {reason}.")
    return remarks + [_command_remark(cell.label, cell.plain[1]) for cell in notebook.cells if cell.plain[1]]


def _command_remark(label: str, remark: str) -> str:
    """Say in which cell a Jupyter command was left out, unless the remark names the cell itself."""
    return remark if remark.startswith("The cell") else f"In {label}, {remark}"


def _absent_lessons(task: GradingTask, names: list[str]) -> list[str]:
    """List the lessons of the release of which no notebook was handed in, if something readable was."""
    readable = [one for one in task.notebooks if one.notebook]
    answered = {EXERCISES[name].lesson for one in readable if one.notebook for name in one.notebook.exercises}
    lessons = sorted({EXERCISES[name].lesson for name in names} - answered)
    return [lesson for lesson in lessons if readable and not any(one.is_of(lesson) for one in task.notebooks)]


def _mark(
    exercise: ReleasedExercise, verdict: Verdict | None, late: bool, task: GradingTask, absent: list[str]
) -> Mark:
    if verdict is None:
        readable = [one for one in task.notebooks if one.notebook]
        of_lesson = [one for one in readable if one.is_of(exercise.lesson)]
        sentence = "Nothing that could be read was handed in."
        if exercise.lesson in absent:
            sentence = "Its notebook was not handed in."
        elif any(one.notebook is None and one.is_of(exercise.lesson) for one in task.notebooks) and not of_lesson:
            sentence = "Its notebook can't be read."
        elif readable and (notebook := (of_lesson or readable)[-1].notebook):
            sentence = explain_missing(notebook, exercise.name)
        verdict = not_passed(sentence).of(exercise.name, exercise.lesson)
    points = exercise.points * (task.policy.late_factor if late else 1.0) if verdict.passed else 0.0
    return Mark(_shortened(verdict), exercise.title, points, exercise.points)


def _shortened(verdict: Verdict) -> Verdict:
    """Shorten the sentences of a verdict to `MAX_SENTENCE` characters: an answer may have a thousand elements."""
    texts = (verdict.message, *verdict.evidence)
    message, *evidence = (one if len(one) <= MAX_SENTENCE else f"{one[:MAX_SENTENCE]}…" for one in texts)
    return replace(verdict, message=message, evidence=tuple(evidence))
