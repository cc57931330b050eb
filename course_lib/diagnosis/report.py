"""The doctor's report: findings as text, as data and, in a notebook, with pictures of the mistakes."""

import json
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from course_lib.about import version
from course_lib.markup import backticks_to_code
from course_lib.wording import counted, listed

from .attention_report import AttentionReport
from .finding import NOT_JUDGED, Finding, Kind, NotJudged

NO_MASK = "no-causal-mask"
NOTHING = "nothing wrong was found"
ON_PURPOSE = "If every token may see every other token on purpose, {}."  # after a finding of NO_MASK


class NotRun(NamedTuple):
    """A path of the code that was not run, such as "its cache `past`", and why."""

    name: str
    missing: str


@dataclass(frozen=True)
class Report:
    """The result of `diagnose`.

    Attributes:
        subject: the name of the code.
        findings: the likeliest first, without the effects of other findings.
        checked: what was found to be right, in short sentences.
        remarks: what is worth knowing but no mistake.
        attentions: of code with several, each with its own findings or the reason why it was not examined.
        not_run: paths of the code that were not run.
    """

    subject: str
    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    attentions: tuple[AttentionReport, ...] = ()
    not_run: tuple[NotRun, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all of it was examined and nothing was found."""
        return not self.findings and not self.not_examined

    @property
    def not_examined(self) -> tuple[AttentionReport | NotRun, ...]:
        """The attentions that could not be examined, and the paths that were not run."""
        return (*self._unseen, *self.not_run)

    @property
    def _unseen(self) -> tuple[AttentionReport, ...]:
        return tuple(one for one in self.attentions if one.missing)

    @property
    def examines_any(self) -> bool:
        """Whether any attention was examined."""
        missing = len(self._unseen) == len(self.attentions) > 0
        return not missing and all(finding.examined for finding in self.findings)

    @property
    def exit_status(self) -> int:
        """0 if nothing is wrong, 1 if something was found, 2 if the code, or a part of it, was not examined."""
        found = [finding for finding in self.findings if finding.examined]
        return 1 if found else 0 if self.ok else 2

    @property
    def not_judged(self) -> tuple[str, ...]:
        """The remarks that say why the scale of some scores could not be judged."""
        return tuple(one for one in self.remarks if isinstance(one, NotJudged))

    @property
    def mistakes(self) -> tuple[str | None, ...]:
        """The ids, in order."""
        return tuple(finding.mistake for finding in self.findings)

    def __repr__(self) -> str:
        return self.in_words()

    def in_words(self, not_causal: str = "give causal=False", *, verbose: bool = False) -> str:
        """Return the report as text.

        Args:
            not_causal: how to say that every token may attend to every other token; depends on who calls the doctor.
            verbose: after each finding, also give its rule, its kind and its facts.
        """
        lines = [f"{self.subject}: {self.verdict}"]
        for number, finding in enumerate(self.findings, 1):
            name = f" [{finding.mistake}]" if finding.mistake else ""
            lines += ["", f"{number}. {finding.title}{name}"]
            if finding.where:
                lines.append(f"   Look at {finding.where}{f':  {finding.source}' if finding.source else ''}")
            lines.append(f"   Seen: {finding.evidence}")
            if finding.hint:
                lines.append(f"   Ask yourself: {finding.hint}")
            if finding.lesson:
                lines.append(f"   Lesson {finding.lesson} is about this.")
            if finding.mistake == NO_MASK:
                lines.append(f"   {ON_PURPOSE.format(not_causal)}")
            lines += [f"   Decided by: {finding.decided_by}"] * verbose
        for intro, sentences in self._sentences():
            lines += ["", *(f"{intro}: {one}" for one in sentences)] if sentences else []
        return "\n".join(lines)

    def _sentences(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return what follows the findings, each kind with its first words."""
        missing = tuple(f"{one.name}, because {one.missing}" for one in self.not_examined)
        return ("Not examined", missing), ("In order", self.checked), ("Worth knowing", self.remarks)

    @property
    def verdict(self) -> str:
        """The result as a clause."""
        if self.attentions:
            return self._verdict_on_several()
        if not self.findings:
            found = f"in one pass {NOTHING}{self._but_not_run}" if self.not_run else f"this is attention, {NOTHING}"
            return f"{found}{self._and_not_judged}."
        if self.exit_status == 2:
            return "it could not be examined."
        unseen = {finding.kind for finding in self.findings if not finding.examined}
        what = "whether it keeps to its window" if unseen == {Kind.UNSEEN_WINDOW} else "its attention"
        return f"{self._things_wrong()}{f', and {what} could not be examined' if unseen else ''}."

    def _verdict_on_several(self) -> str:
        count, unseen = len(self.attentions), len(self._unseen)
        found = f"{counted(count, 'attention')} found"
        if unseen == count and self.exit_status == 2:
            return f"{found}, {'which could not' if count == 1 else 'none of which could'} be examined."
        wrong = [one.name for one in self.attentions if one.findings]
        inside = {(one.mistake, one.where) for attention in self.attentions for one in attention.findings}
        if wrong and any((one.mistake, one.where) not in inside for one in self.findings):
            wrong.append("elsewhere")
        result = f"{self._things_wrong()}{f' in {listed(wrong)}' if wrong else ''}"
        limited = ", but not all could be examined" if self.findings else f"{self._but_not_run}{self._and_not_judged}"
        result = result if self.exit_status == 1 else f"{NOTHING}{limited}"
        return f"{found}, {count - unseen} examined: {result}."

    @property
    def _and_not_judged(self) -> str:
        return f"; {NOT_JUDGED}" if self.not_judged else ""

    @property
    def _but_not_run(self) -> str:
        names = listed([one.name for one in self.not_run])
        return f", but {names} {'was' if len(self.not_run) == 1 else 'were'} not examined" if self.not_run else ""

    def _things_wrong(self) -> str:
        count = sum(finding.examined for finding in self.findings)
        return "one thing is wrong" if count == 1 else f"{count} things are wrong"

    def _repr_html_(self) -> str:
        """Return the report as HTML, with its pictures; the hints unfold."""
        items = [f"<li>{_as_html(finding)}</li>" for finding in self.findings]
        headline = f"<p><strong>{escape(f'{self.subject}: {self.verdict}')}</strong></p>"
        parts = [headline, *(["<ol>", *items, "</ol>"] if items else [])]
        for intro, sentences in self._sentences():
            listed = "".join(f"<li>{backticks_to_code(one)}</li>" for one in sentences)
            parts += [f"<p>{intro}:</p><ul>{listed}</ul>"] if listed else []
        return "".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for `course doctor --json` and other programs."""
        return {
            "version": version(),
            "subject": self.subject,
            "ok": self.ok,
            "findings": [finding.as_dict() for finding in self.findings],
            "checked": list(self.checked),
            "remarks": list(self.remarks),
            "not_judged": list(self.not_judged),
            "attentions": [attention.as_dict() for attention in self.attentions],
            "not_run": [f"{one.name}: {one.missing}" for one in self.not_run],
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)


def _as_html(finding: Finding) -> str:
    name = f" <code>{escape(finding.mistake)}</code>" if finding.mistake else ""
    text = f": <code>{escape(finding.source)}</code>" if finding.source else ""
    where = f"<br>Look at {escape(finding.where)}{text}" if finding.where else ""
    on_purpose = f"<br>{ON_PURPOSE.format('give <code>causal=False</code>')}" if finding.mistake == NO_MASK else ""
    lesson = f" Lesson {finding.lesson} is about this." if finding.lesson else ""
    hint = f"<details><summary>A question to ask</summary>{backticks_to_code(finding.hint)}{lesson}</details>"
    picture = finding.picture
    return (
        f"<strong>{backticks_to_code(finding.title)}</strong>{name}{where}"
        f"<br>Seen: {backticks_to_code(finding.evidence)}"
        f"{on_purpose}{hint if finding.hint else ''}{picture._repr_html_() if picture is not None else ''}"
    )
