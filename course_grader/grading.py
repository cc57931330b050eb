"""Grade one student: the code runs in a sandbox; inputs are drawn and outputs compared outside of it."""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from course_lib.exercises import (
    EXERCISES,
    NEEDS_REVIEW,
    NOT_PASSED,
    NOT_WRITTEN,
    Verdict,
    calls_in_solution,
    gradable,
    is_individual,
    not_passed,
)

from .identical_submissions import equals_solutions
from .judging import Budget, RemoteNotebook, judge_notebook, provided_code, stops, with_solutions
from .manifest import Release, ReleasedExercise
from .marks import MISSING, UNREADABLE, Mark, StudentResult
from .sandbox import Sandbox
from .submissions import Notebook, OwnTimestamp, SubmittedNotebook, explain_missing, parse, select_notebooks

MAX_REMARKS, MAX_SENTENCE = 20, 600
NOBODYS = "Whose sheet this is can't be told: nobody of that name was on the roster when the sheets were made."


@dataclass(frozen=True)
class GradingPolicy:
    """What a teacher decides about points, for late submissions and for wrong answers.

    Attributes:
        due: The time in seconds since 1970 after which a submission is late, or None.
        late_factor: What the points of late exercises are multiplied by, from 0 to 1.
        parts: Whether what is right in a wrong answer earns the share that its exercise gives it.
        helper_once: Whether an answer that passes with the course's helpers in place of wrong ones earns its points.

    Raises:
        ValueError: `late_factor` is not from 0 to 1.
    """

    due: float | None = None
    late_factor: float = 1.0
    parts: bool = False
    helper_once: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.late_factor <= 1:
            raise ValueError(f"late_factor is {self.late_factor}: take a number from 0 (no points) to 1 (all of them).")


@dataclass(frozen=True)
class GradingTask:
    """Everything that is needed to grade one student, as data without any path of the teacher's machine.

    Attributes:
        student: The name of the folder or file.
        notebooks, remarks: What was submitted, and what was noticed when it was collected.
        release, policy: What is graded, and how late submissions are.
        secret: The run's secret; inputs are drawn from it, the student's name and the file.
        digest: A checksum of all this but the secret.
        sheet: The number of the student's own sheet; None if all have the same, or nobody of that name has one.
        unread: The names of files that were not read, because they are neither notebooks nor zips.
    """

    student: str
    notebooks: tuple[SubmittedNotebook, ...]
    remarks: tuple[str, ...]
    release: Release
    policy: GradingPolicy = GradingPolicy()
    secret: bytes = b""
    digest: str = ""
    unread: tuple[str, ...] = ()
    sheet: int | None = None

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
        The result, with a mark for each exercise of the release, whatever was file.

    Raises:
        NoSandbox: Students' code cannot be isolated here.
    """
    names = [exercise.name for exercise in task.release.exercises]
    limits = sandbox.limits
    judged = _Judged(task, sandbox, diagnosis_sandbox, Budget(limits.notebook), Budget(limits.answer))
    while True:
        selection = select_notebooks(
            task.notebooks, names, task.policy.due, task.release.name, unwritten=judged.unwritten
        )
        if not judged.add(selection.notebook_of):
            break
    verdicts = {name: judged.verdicts[name, id(notebook)] for name, notebook in selection.notebook_of.items()}
    used = {id(notebook): notebook for notebook in selection.notebook_of.values()}
    remarks = [*task.remarks, *selection.remarks, *(remark for notebook in used for remark in judged.remarks[notebook])]
    if task.unread:
        remarks.append(f"Not read, because only notebooks (.ipynb) are: {', '.join(task.unread)}.")
    remarks += [
        f"{file.name} is sheet {file.notebook.stamp['sheet']}, and yours is {task.sheet}, whose questions are others."
        for file in task.notebooks
        if file.notebook and _is_anothers(file, task)
    ]
    remarks += [
        f"{file.name} is the sheet that anybody can have: your own, {task.sheet}, has other questions and variants."
        for file in task.notebooks
        if file.notebook and task.sheet is not None and _is_public(file.notebook, names)
    ]
    absent = _absent_lessons(task, names)
    remarks += [f"The notebook of lesson {lesson} was not handed in." for lesson in absent]
    foreign = [file for file in task.notebooks if file.notebook and not file.notebook.exercises.intersection(names)]
    if others := [file.name for file in foreign if not any(map(file.answers, names))]:
        remarks.append(f"No exercise of {task.release.name} is in {', '.join(others)}.")
    marks = [
        _mark(exercise, verdicts.get(exercise.name), selection.late.get(exercise.name, False), task, absent)
        for exercise in task.release.exercises
    ]
    marks = [
        _with_causes(mark, judged.causes(mark.verdict.name, selection.notebook_of, verdicts), task) for mark in marks
    ]
    passed = {name: notebook for name, notebook in selection.notebook_of.items() if verdicts[name].passed}
    flags = {
        "a file can't be read": any(not isinstance(remark, OwnTimestamp) for remark in task.remarks)
        or any(not file.notebook for file in task.notebooks),
        "it has a timestamp.txt of its own": any(isinstance(remark, OwnTimestamp) for remark in task.remarks),
        "only other weeks' notebooks": others and not used,
        "cells were left out": any(notebook in judged.left_out or used[notebook].remarks for notebook in used),
        "cells are gone": any(mark.verdict.state == NOT_PASSED and mark.verdict.name not in verdicts for mark in marks),
        "the sheet of another student": any(_is_anothers(file, task) for file in task.notebooks),
        "word for word the solutions of the course": equals_solutions(passed),
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


@dataclass
class _Judged:
    """The verdicts on a student's notebooks so far; each (exercise, notebook) is judged once."""

    task: GradingTask
    sandbox: Sandbox
    diagnosis_sandbox: Sandbox
    budget: Budget
    second_budget: Budget  # to see what caused the verdicts
    verdicts: dict[tuple[str, int], Verdict] = field(default_factory=dict)  # by exercise and id of the notebook
    unwritten: list[tuple[str, Notebook]] = field(default_factory=list)  # the exercises that it holds no answer to
    remarks: dict[int, list[str]] = field(default_factory=dict)  # id of the notebook -> what happened to its cells
    left_out: dict[int, set[int]] = field(default_factory=dict)  # id of the notebook -> the cells that ended it

    def add(self, notebook_of: Mapping[str, Notebook]) -> bool:
        """Judge what was not judged yet; return whether there was any."""
        new = {name: chosen for name, chosen in notebook_of.items() if (name, id(chosen)) not in self.verdicts}
        for group, notebook in _groups(new):
            cells = [(cell.number, cell.plain[0]) for cell in notebook.cells]
            with RemoteNotebook(self.sandbox, cells, group, provided_code(group[0]), self.budget) as remote:
                verdicts = self._judge(remote, notebook, self.diagnosis_sandbox)
                self.remarks.setdefault(id(notebook), []).extend(_cell_remarks(remote, notebook))
                if remote.ended:
                    self.left_out.setdefault(id(notebook), set()).update(remote.ended)
            self.verdicts |= {(name, id(notebook)): verdict for name, verdict in verdicts.items()}
            self.unwritten += [(name, notebook) for name in group if _is_unwritten(verdicts[name], notebook)]
        return bool(new)

    def causes(
        self, name: str, notebook_of: Mapping[str, Notebook], verdicts: Mapping[str, Verdict]
    ) -> tuple[str, ...]:
        """Return the wrong answers without which this one would be right: it calls them, and passes with ours instead.

        That run gives no point: beside our solutions students' code could take one from another.
        """
        notebook = notebook_of.get(name)
        if notebook is None or verdicts[name].state != NOT_PASSED:
            return ()
        wrong = [other for other, verdict in verdicts.items() if other != name and not verdict.passed]
        called, cells = with_solutions(notebook, name, wrong, self.left_out.get(id(notebook), ()), self.task.sheet)
        if not called:
            return ()
        with RemoteNotebook(self.sandbox, cells, [name], provided_code(name), self.second_budget) as remote:
            return called if self._judge(remote, notebook, None)[name].passed else ()

    def _judge(self, remote: RemoteNotebook, notebook: Notebook, diagnosis: Sandbox | None) -> dict[str, Verdict]:
        seed = functools.partial(self.task.seed, notebook=notebook)
        verdicts = judge_notebook(remote, notebook, seed, diagnosis, self.task.sheet)
        unknown = self.task.release.is_individual and self.task.sheet is None
        return {
            name: Verdict(NEEDS_REVIEW, NOBODYS, lesson=verdict.lesson, name=name)
            if unknown and is_individual(name)
            else verdict
            for name, verdict in verdicts.items()
        }


def _is_unwritten(verdict: Verdict, notebook: Notebook) -> bool:
    """Return whether it is as it was handed out, or nothing but comments."""
    cells = [parse(cell.plain[0]) for cell in notebook.cells if verdict.name in (cell.exercise, *cell.defines)]
    return verdict.state == NOT_WRITTEN or not any(cell is None or cell.body for cell in cells)


def ungraded(task: GradingTask, reason: str) -> StudentResult:
    """Return a result in which every exercise needs the teacher's review, until a later run succeeds."""
    marks = tuple(
        Mark(Verdict(NEEDS_REVIEW, reason, lesson=each.lesson, name=each.name), each.title, 0.0, each.points)
        for each in task.release.exercises
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


def _is_anothers(file: SubmittedNotebook, task: GradingTask) -> bool:
    claimed = file.notebook.stamp.get("sheet") if file.notebook else None
    return bool(claimed and task.sheet is not None and claimed != str(task.sheet))


def _is_public(notebook: Notebook, names: list[str]) -> bool:
    """Return whether cells of a notebook were made for exercises, and none for those of a sheet of somebody's own."""
    here = notebook.released_exercises.intersection(names)
    return bool(here) and here <= EXERCISES.keys() and "sheet" not in notebook.stamp


def _absent_lessons(task: GradingTask, names: list[str]) -> list[str]:
    """List the lessons of the release of which no notebook was handed in, if something readable was."""
    readable = [file for file in task.notebooks if file.notebook]
    answered = {gradable()[name].lesson for file in readable if file.notebook for name in file.notebook.exercises}
    lessons = sorted({gradable()[name].lesson for name in names} - answered)
    return [lesson for lesson in lessons if readable and not any(file.is_of(lesson) for file in task.notebooks)]


def _mark(
    exercise: ReleasedExercise, verdict: Verdict | None, late: bool, task: GradingTask, absent: list[str]
) -> Mark:
    if verdict is None:
        of_lesson = [file for file in task.notebooks if file.is_of(exercise.lesson)]
        readable = [file.notebook for file in of_lesson or task.notebooks if file.notebook]
        state = UNREADABLE if task.notebooks or task.remarks else MISSING
        verdict = Verdict(state, "Nothing that could be read was handed in.")
        if exercise.lesson in absent:
            verdict = Verdict(MISSING, "Its notebook was not handed in.")
        elif readable:
            verdict = not_passed(explain_missing(readable[-1], exercise.name))
        elif any(file.notebook for file in task.notebooks):
            verdict = Verdict(UNREADABLE, "Its notebook can't be read.")
        verdict = verdict.of(exercise.name, exercise.lesson)
    share = 1.0 if verdict.passed else verdict.share * task.policy.parts
    return Mark(_shortened(verdict), exercise.title, share * _most(exercise.points, late, task), exercise.points, late)


def _most(points: float, late: bool, task: GradingTask) -> float:
    return points * (task.policy.late_factor if late else 1.0)


def _with_causes(mark: Mark, causes: tuple[str, ...], task: GradingTask) -> Mark:
    """Add the wrong answers that a wrong answer calls; where helpers cost once, it keeps its points.

    A helper is what the course's own answer calls, too: an answer that is another exercise's class is no work.
    """
    once = bool(causes) and task.policy.helper_once and calls_in_solution(mark.verdict.name, causes, task.sheet)
    return replace(mark, caused_by=causes, points=_most(mark.possible, mark.late, task) if once else mark.points)


def _shortened(verdict: Verdict) -> Verdict:
    """Shorten the sentences of a verdict to `MAX_SENTENCE` characters: an answer may have a thousand elements."""
    texts = (verdict.message, *verdict.evidence)
    message, *evidence = (text if len(text) <= MAX_SENTENCE else f"{text[:MAX_SENTENCE]}…" for text in texts)
    return replace(verdict, message=message, evidence=tuple(evidence))
