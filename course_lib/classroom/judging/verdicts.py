"""A notebook's answers, one after the other: judged on numbers drawn after their code was loaded, then named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course_lib.classroom.handed_in.notebooks import Sheet, missing
from course_lib.classroom.handed_in.unreadable import shown
from course_lib.classroom.sandbox import Sandbox
from course_lib.diagnosis import CATALOGUE
from course_lib.exercises.catalogue import EXERCISES
from course_lib.exercises.functions import FunctionJudge
from course_lib.exercises.inputs import numbers
from course_lib.exercises.modules import ModuleJudge
from course_lib.exercises.running import Stopped
from course_lib.exercises.verdict import LOOK, NOT_PASSED, Verdict, not_passed, not_written

from .class_judge import judge_class
from .drawn import Draw, as_split, built, drawn_inputs
from .remote import Remote, RemoteClass, RemoteFunction

STOPPED = "Your code stopped"


def verdicts(remote: Remote, sheet: Sheet, seed: Callable[[str], bytes], clinic: Sandbox) -> dict[str, Verdict]:
    """Judge each exercise that a notebook is asked about.

    Args:
        remote: the notebook behind walls.
        sheet: what is in it, to say what is missing.
        seed: exercise -> what its numbers are drawn from.
        clinic: where wrong classes run again, with the doctor beside them. What is said there names a mistake; it never
            gives a mark.

    Returns:
        Exercise -> its verdict, whatever the student's code did.
    """
    found = {}
    for name in remote.names:
        try:
            remote.load()
            verdict = _verdict(name, remote, sheet, Draw(seed(name)))
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
            seen = f"Seen: {words(one.get('evidence'))}."
            where = words(one.get("where")) or None
            if verdict.state == LOOK:
                return replace(
                    verdict, evidence=(*verdict.evidence, f"The doctor's guess: {entry.title} {seen}"), where=where
                )
            return not_passed(entry.title, entry.id, evidence=(seen, verdict.says), where=where)
    return verdict


def words(said: Any) -> str:
    """What a student's process says, made harmless; "" for what is no text."""
    return shown(said, 300) if isinstance(said, str) else ""
