"""The report of a scan: a row per path, and each thing that is wrong with its module, line and page."""

import json
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

from course_lib.about import version
from course_lib.diagnosis import NOT_JUDGED, Finding, Kind
from course_lib.wording import counted

from .path import Outcome

SIGNS = {"agrees": "ok", "wrong": "WRONG", "remark": "differs", "not run": "-", "not examined": "?"}

WEIGHT = {"wrong": 2, "not examined": 1}  # which outcome of a path stands in the table


class NotExamined(NamedTuple):
    """A path, or a model, that could not be examined, and why."""

    name: str
    missing: str


@dataclass(frozen=True)
class ScanReport:
    """The result of `scan`.

    Attributes:
        subject: the name of the model.
        outcomes: of each path, in the order in which they were run.
        failure: why nothing could be run; "" otherwise.
        note: what is worth knowing of the model; "" for nothing.
    """

    subject: str
    outcomes: tuple[Outcome, ...] = ()
    failure: str = ""
    note: str = ""

    @property
    def wrong(self) -> tuple[Outcome, ...]:
        """What is wrong, in the order of the paths."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "wrong")

    @property
    def not_examined(self) -> tuple[NotExamined, ...]:
        """What could not be examined: paths that the model offers, or all of it."""
        if self.failure:
            return (NotExamined("the model", self.failure),)
        unseen = (outcome for outcome in self.outcomes if outcome.status == "not examined")
        return tuple(NotExamined(f"the path `{outcome.path}`", outcome.detail) for outcome in unseen)

    @property
    def ok(self) -> bool:
        """Whether every path that the model offers was examined and nothing was found."""
        return self.exit_status == 0

    @property
    def exit_status(self) -> int:
        """0 if all was examined and nothing is wrong, 1 if something is, 2 if something was not examined."""
        return 1 if self.wrong else 2 if self.not_examined else 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, as the doctor's findings."""
        return tuple(_finding(outcome) for outcome in self.wrong)

    @property
    def verdict(self) -> str:
        """The result as a clause."""
        if self.failure:
            return f"it could not be examined: {self.failure}."
        differ = len({outcome.path for outcome in self.outcomes if outcome.status == "remark"})
        run = {outcome.path for outcome in self.outcomes if outcome.status not in ("not run", "not examined")}
        bad = len({outcome.path for outcome in self.wrong})
        unseen = list(dict.fromkeys(outcome.path for outcome in self.outcomes if outcome.status == "not examined"))
        result = f"{bad} wrong" if bad else "none wrong" if unseen or differ else "all agree"
        result += f", {differ} {'differs' if differ == 1 else 'differ'}" if differ else ""
        more = f"; {len(unseen)} not examined: {', '.join(unseen)}" if unseen else ""
        more += f"; {NOT_JUDGED}" if any(outcome.not_judged for outcome in self.outcomes) else ""
        return f"{counted(len(run), 'path')} run, {result}{more}."

    @property
    def first_of_each_path(self) -> list[Outcome]:
        """One outcome per path: what is wrong if anything is, else what was not examined, else the first."""
        first: dict[str, Outcome] = {}
        for outcome in self.outcomes:
            if outcome.path not in first or WEIGHT.get(outcome.status, 0) > WEIGHT.get(first[outcome.path].status, 0):
                first[outcome.path] = outcome
        return list(first.values())

    def __repr__(self) -> str:
        return self.in_words()

    def in_words(self, not_causal: str = "", *, verbose: bool = False) -> str:
        """Return the report as text, on whose findings more is said if verbose; `not_causal` makes no difference."""
        lines = [f"{self.subject}: {self.verdict}", ""]
        width = max((len(outcome.path) for outcome in self.outcomes), default=0)
        for outcome in self.first_of_each_path:
            lines.append(f"  {outcome.path:<{width}}  {SIGNS[outcome.status]:<7}  {outcome.detail}")
        for number, finding in enumerate(self.findings, 1):
            lines += ["", f"{number}. {finding.title}{f' [{finding.mistake}]' if finding.mistake else ''}"]
            lines += [f"   Look at {finding.where}:  {finding.source}"] if finding.where else []
            lines += [f"   Seen: {finding.evidence}", *([f"   Ask yourself: {finding.hint}"] if finding.hint else [])]
            lines += [f"   Decided by: {finding.decided_by}"] * verbose
        lines += ["", f"Worth knowing: {self.note}"] if self.note else []
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(outcome.path)}</td><td>{SIGNS[outcome.status]}</td><td>{escape(outcome.detail)}</td></tr>"
            for outcome in self.first_of_each_path
        )
        items = "".join(
            f"<li><strong>{escape(finding.title)}</strong> <code>{finding.mistake or ''}</code>"
            f"{f'<br>Look at {escape(finding.where)}' if finding.where else ''}<br>"
            f"Seen: {escape(finding.evidence)}</li>"
            for finding in self.findings
        )
        return (
            f"<p><strong>{escape(f'{self.subject}: {self.verdict}')}</strong></p><table><thead><tr><th>path</th>"
            f"<th>result</th><th>measured</th></tr></thead><tbody>{rows}</tbody></table>"
            f"{f'<ol>{items}</ol>' if items else ''}{f'<p>Worth knowing: {escape(self.note)}</p>' if self.note else ''}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for `course scan --json` and other programs."""
        return {
            "version": version(),
            "subject": self.subject,
            "ok": self.ok,
            "not_examined": [f"{unseen.name}: {unseen.missing}" for unseen in self.not_examined],
            "note": self.note,
            "paths": [outcome.as_dict() for outcome in self.outcomes],
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)


def _finding(outcome: Outcome) -> Finding:
    """Return what is wrong on a path as a finding; the path and the module are part of the evidence."""
    submodule = outcome.submodule
    module = ""
    if submodule and submodule.kind:
        module = f"; the first module that differs is {submodule.module or 'the model itself'} ({submodule.kind})"
    evidence = f"on the path `{outcome.path}`, {outcome.detail}{module}"
    where = submodule.where if submodule else None
    finding = Finding.named(outcome.mistake, "") if outcome.mistake else Finding.unnamed(Kind.RANDOM, "")
    return replace(outcome.finding or replace(finding, rule=outcome.path), evidence=evidence, where=where)
