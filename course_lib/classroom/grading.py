"""One student's week, graded: the code runs behind walls, the numbers are drawn and compared on this side."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from course_lib.diagnosis import CATALOGUE
from course_lib.exercises.catalogue import EXERCISES
from course_lib.exercises.functions import FunctionJudge
from course_lib.exercises.inputs import numbers
from course_lib.exercises.modules import ModuleJudge
from course_lib.exercises.running import Stopped
from course_lib.exercises.verdict import LOOK, NOT_PASSED, Verdict, not_passed, not_written

from .handed_in.counting import what_counts
from .handed_in.notebooks import Sheet, missing, runnable
from .handed_in.unreadable import Unreadable, shown
from .judging.class_judge import judge_class
from .judging.drawn import Draw, as_split, built, drawn_inputs
from .judging.given import given
from .judging.remote import Remote, RemoteClass, RemoteFunction
from .marks import Graded, Mark
from .record import Asked, Record
from .sandbox import Sandbox

MOST_REMARKS, LONGEST = 20, 600
STOPPED = "Your code stopped"


@dataclass(frozen=True, eq=False)
class Handed:
    """A notebook as it travels to a worker.

    Attributes:
        name: of the file.
        at: when it was handed in, unix time.
        marked_late: whether the school's platform says that it was late.
        sheet: what is in it, or None.
        reason: why nothing is.
    """

    name: str
    at: float
    marked_late: bool
    sheet: Sheet | None
    reason: str = ""


@dataclass(frozen=True)
class Work:
    """All that is needed to grade one student, as data: no path of the teacher's machine.

    Attributes:
        student: name of the folder or file.
        files: what was handed in.
        remarks: what was found when the files were collected.
        record: of the release.
        due: unix time, or None.
        late_factor: what points of late exercises are multiplied by.
        secret: the run's own; from it and the student's name the numbers are drawn.
        digest: of all this but the secret.
    """

    student: str
    files: tuple[Handed, ...]
    remarks: tuple[str, ...]
    record: Record
    due: float | None = None
    late_factor: float = 1.0
    secret: bytes = b""
    digest: str = ""

    def seed(self, exercise: str) -> bytes:
        """What the numbers of one exercise are drawn from: nobody without the secret can know them."""
        return hmac.digest(self.secret, f"{self.student}\0{exercise}".encode(), hashlib.sha256)


def grade(work: Work, sandbox: Sandbox, clinic: Sandbox) -> Graded:
    """Grade one student.

    Args:
        work: what was handed in, and what was asked.
        sandbox: where answers run; nothing of the course is in it but what an exercise gives.
        clinic: where wrong classes run again, with the doctor beside them. What is said there names a mistake; it never
            gives a mark.

    Returns:
        Graded, with a mark for each exercise of the release, whatever was handed in.

    Raises:
        NoSandbox: students' code can't be run here.
    """
    began = time.perf_counter()
    names = [one.name for one in work.record.exercises]
    sheets = [(file, file.sheet or Unreadable(file.reason)) for file in work.files]
    counted = what_counts(sheets, names, work.due, work.record.release)
    verdicts: dict[str, Verdict] = {}
    remarks = [*work.remarks, *counted.remarks]
    for group, sheet in _groups(counted.sheet_of):
        with Remote(
            sandbox, [(cell.number, runnable(cell.source)[0]) for cell in sheet.cells], group, given(group[0])
        ) as remote:
            verdicts |= _verdicts(remote, sheet, work, clinic)
            remarks += _remarks(remote, sheet)
    marks = tuple(
        _mark(one, verdicts.get(one.name), counted.late.get(one.name, False), work) for one in work.record.exercises
    )
    handed_in = counted.handed_in and datetime.fromtimestamp(counted.handed_in, UTC).isoformat(timespec="seconds")
    return Graded(
        work.student,
        marks,
        tuple(dict.fromkeys(remarks))[:MOST_REMARKS],
        handed_in or None,
        any(counted.late.values()),
        work.digest,
        round(time.perf_counter() - began, 3),
    )


def failed(work: Work, reason: str) -> Graded:
    """A result that asks for a teacher's look at every exercise."""
    marks = tuple(Mark(_look(one, reason), one.title, 0.0, one.points) for one in work.record.exercises)
    return Graded(work.student, marks, (*work.remarks, reason), digest=work.digest)


def _look(one: Asked, reason: str) -> Verdict:
    return Verdict(LOOK, reason, lesson=one.lesson, name=one.name)


def _groups(sheet_of: dict[str, Sheet]) -> list[tuple[list[str], Sheet]]:
    """Exercises that can share a process: of one notebook, and given the same of the course."""
    groups: list[tuple[list[str], Sheet, Any]] = []
    for name, sheet in sheet_of.items():
        gives = given(name)
        group = next((one for one in groups if one[1] is sheet and one[2] == gives), None)
        if group is None:
            groups.append(([name], sheet, gives))
        else:
            group[0].append(name)
    return [(names, sheet) for names, sheet, _ in groups]


def _verdicts(remote: Remote, sheet: Sheet, work: Work, clinic: Sandbox) -> dict[str, Verdict]:
    found = {}
    for name in remote.names:
        try:
            remote.load()
            verdict = _verdict(name, remote, sheet, Draw(work.seed(name)))
        except Stopped as stopped:
            verdict = not_passed(stopped.says, where=stopped.where)
        judge = EXERCISES[name].judge
        unnamed = verdict.state in (NOT_PASSED, LOOK) and verdict.mistake is None
        if unnamed and isinstance(judge, ModuleJudge) and not verdict.says.startswith(STOPPED):
            verdict = _named(verdict, name, judge, remote, clinic)
        found[name] = verdict.of(name, EXERCISES[name].lesson)
    return found


def _verdict(name: str, remote: Remote, sheet: Sheet, draw: Draw) -> Verdict:
    """One answer, judged on numbers that were drawn after its code was loaded."""
    judge, kind = EXERCISES[name].judge, remote.kinds.get(name)
    if kind is None:
        return not_passed(missing(sheet, name))
    if kind in ("NoneType", "ellipsis"):
        return not_written()
    if isinstance(judge, ModuleJudge):
        if kind != "class":
            return not_passed(f"The answer is a {kind}; it should be the class itself.")
        return judge_class(judge, RemoteClass(remote, name), draw)
    if not isinstance(judge, FunctionJudge):  # the name of a mistake
        return judge(RemoteFunction(remote, name, [()]))
    if kind not in ("function", "class"):
        return not_passed(f"The answer is a {kind}; it should be the function itself, uncalled.")
    inputs = drawn_inputs(name, draw)
    answer = RemoteFunction(remote, name, inputs)
    of_result = (lambda wrapper: as_split(answer(wrapper), wrapper)) if name == "to_split" else answer
    objects = built(inputs)
    return replace(judge, inputs=lambda: objects)(of_result)


def _named(verdict: Verdict, name: str, judge: ModuleJudge, remote: Remote, clinic: Sandbox) -> Verdict:
    """Let the doctor give a mistake its name, in a process of its own; only names of the catalogue are taken."""
    batch, num_tokens = judge.inputs[0]
    options = {"causal": judge.causal, "num_heads": judge.num_heads, "num_kv_heads": judge.num_kv_heads}
    x = numbers(batch, num_tokens, judge.sizes[0])
    cells = [one for one in remote.cells if one[0] not in remote.ended]
    with Remote(clinic, cells, [name], {}) as again:
        try:
            said = again.ask("examine", name=name, sizes=judge.sizes, x=x, options=options)
        except Stopped:
            return verdict
    findings = said.get("findings")
    for one in findings if isinstance(findings, list) else ():
        if isinstance(one, dict) and one.get("mistake") in CATALOGUE:
            entry = CATALOGUE[one["mistake"]]
            seen = f"Seen: {_words(one.get('evidence'))}."
            where = _words(one.get("where")) or None
            if verdict.state == LOOK:
                return replace(
                    verdict, evidence=(*verdict.evidence, f"The doctor's guess: {entry.title} {seen}"), where=where
                )
            return not_passed(entry.title, entry.id, evidence=(seen, verdict.says), where=where)
    return verdict


def _words(said: Any) -> str:
    return shown(said, 300) if isinstance(said, str) else ""


def _remarks(remote: Remote, sheet: Sheet) -> list[str]:
    """What happened to cells, as far as the student should know."""
    said = [f"Cell {number} was left out: {reason}." for number, reason in sorted(remote.ended.items())]
    for number, told in sorted(remote.raised.items()):
        if told.get("kind") not in ("NotInGrading", "NotImplementedError") and number not in remote.ended:
            words = _words(told.get("words")) or "no reason was given"
            said.append(f"Cell {number} stopped with {_words(told.get('kind'))}: {words}.")
    for cell in sheet.cells:
        if remark := runnable(cell.source)[1]:
            said.append(f"Cell {cell.number}: {remark}")
    return said


def _mark(one: Asked, verdict: Verdict | None, late: bool, work: Work) -> Mark:
    if verdict is None:
        sheets = [file.sheet for file in work.files if file.sheet]
        words = missing(sheets[-1], one.name) if sheets else "Nothing that could be read was handed in."
        verdict = not_passed(words).of(one.name, one.lesson)
    points = one.points * (work.late_factor if late else 1.0) if verdict.passed else 0.0
    return Mark(_short(verdict), one.title, points, one.points)


def _short(verdict: Verdict) -> Verdict:
    """A result of a thousand numbers needn't be told whole."""
    says, *evidence = (
        text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in (verdict.says, *verdict.evidence)
    )
    return replace(verdict, says=says, evidence=tuple(evidence))
