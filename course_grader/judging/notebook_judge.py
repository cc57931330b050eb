"""Judge the answers of one notebook on inputs drawn after its code was loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from course_grader.sandbox import NoSandbox, Sandbox
from course_grader.submissions import Notebook, escape_hidden, explain_missing
from course_lib.exercises import (
    NEEDS_REVIEW,
    NOT_WRITTEN,
    InputGenerator,
    LearnerError,
    Verdict,
    exercise_of_sheet,
    not_passed,
)
from course_lib.wording import without_addresses

from .remote_answers import RemoteAnswer
from .remote_notebook import RemoteNotebook, safe_text

FACTS = {"factor": float, "off": float, "rounds": bool, "kv_heads": list}


def judge_notebook(
    remote: RemoteNotebook,
    notebook: Notebook,
    seed: Callable[[str], bytes],
    diagnosis_sandbox: Sandbox | None,
    sheet: int | None = None,
) -> dict[str, Verdict]:
    """Judge each exercise that a notebook counts for, whatever the student's code does.

    An error of the grader itself concerns one exercise only, which then needs a teacher's look.

    Args:
        remote, notebook: The notebook in the sandbox, and its code, to say what is missing.
        seed: Exercise -> the seed of its inputs.
        diagnosis_sandbox: Where wrong classes run again, with `diagnose` beside them. What it finds names a mistake; it
            never gives a mark. None lets mistakes go without a name.
        sheet: The number of the student's own sheet, if it is one.

    Raises:
        NoSandbox: A sandbox could not be started.
    """
    verdicts = {}
    for name in remote.names:
        exercise = exercise_of_sheet(name, sheet)
        try:
            remote.load()
            if name not in remote.kinds:
                verdict = not_passed(explain_missing(notebook, name, stops(remote)))
            else:
                answer = RemoteAnswer(remote, name, _Diagnosis(remote, name, diagnosis_sandbox))
                verdict = exercise.judge(answer, InputGenerator(seed(name)))
            verdict = _harmless(verdict, notebook)
        except LearnerError as error:
            verdict = _harmless(not_passed(error.sentence, where=error.where), notebook)
        except NoSandbox:
            raise
        except Exception as error:  # whatever a student's process sends must not cost the other exercises
            reason = f"Grading itself failed here ({type(error).__name__}); the answer was not judged."
            verdict = Verdict(NEEDS_REVIEW, reason)
        verdicts[name] = verdict.of(name, exercise.lesson)
    return verdicts


class _Diagnosis:
    """Lets `diagnose` look at one class, in a separate process, and returns its findings."""

    def __init__(self, remote: RemoteNotebook, name: str, sandbox: Sandbox | None) -> None:
        self.remote, self.name, self.sandbox = remote, name, sandbox

    def __call__(self, sizes: Sequence[int], x: Tensor, options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        if self.sandbox is None:
            return []
        cells, budget = self.remote.remaining_cells, self.remote.budget
        with RemoteNotebook(self.sandbox, cells, [self.name], {}, budget) as exposed:
            message = exposed.ask("diagnose", name=self.name, sizes=tuple(sizes), x=x, options=dict(options))
        findings = message.get("findings")
        return [
            {name: safe_text(finding.get(name)) for name in ("mistake", "evidence", "where")}
            | {"facts": _safe_facts(finding.get("facts"))}
            for finding in (findings if isinstance(findings, list) else ())
            if isinstance(finding, dict)
        ]


def _safe_facts(received: Any) -> dict[str, Any]:
    """Return the facts that a student's process reports and verdicts depend on, if each is of its kind."""
    facts = received if isinstance(received, dict) else {}
    return {name: facts[name] for name, kind in FACTS.items() if type(facts.get(name)) is kind}


def stops(remote: RemoteNotebook) -> dict[int, str]:
    """Map each cell that was stopped to the reason, as the end of a sentence that begins with the cell."""
    reasons = {}
    for number, error in remote.raised.items():
        kind, message, line = (safe_text(error.get(key)) for key in ("kind", "message", "text"))
        location = f" at `{line[:100]}`" if line else ""
        reasons[number] = f"stopped{location} with {kind or 'an error'}: {message.rstrip('.') or 'no reason was given'}"
    reasons = {number: without_addresses(reason) for number, reason in reasons.items()}
    return reasons | {number: f"was left out: {reason}" for number, reason in remote.ended.items()}


def _harmless(verdict: Verdict, notebook: Notebook) -> Verdict:
    """Escape what a student's process may have written into a verdict, and say it for a page of marks."""
    message = "This isn't written yet, or not to its end." if verdict.state == NOT_WRITTEN else verdict.message
    return replace(
        verdict,
        message=escape_hidden(message, 600),
        evidence=tuple(escape_hidden(sentence, 600) for sentence in verdict.evidence),
        where=_located(safe_text(verdict.where), notebook) or None,
    )


def _located(where: str, notebook: Notebook) -> str:
    """Describe "cell 3:12" by the exercise of the cell and the text of the line: Jupyter numbers no cells."""
    match = re.fullmatch(r"cell (\d{1,6}):(\d{1,6})", where)
    cell = next((cell for cell in notebook.cells if match and cell.number == int(match[1])), None)
    if not match or not cell:
        return where
    at, lines = int(match[2]), cell.source.split("\n")
    text = escape_hidden(lines[at - 1].strip(), 100).replace("`", "'") if 0 < at <= len(lines) else ""
    return f"line {at} of {cell.label}" + (f": `{text}`" if text else "")
