"""The doctor's report: findings as text, as data and, in a notebook, with pictures of the mistakes."""

import json
from dataclasses import dataclass
from html import escape
from typing import Any

from course_lib.about import version
from course_lib.markup import backticks_to_code

from .finding import NOT_EXAMINED, Finding

NO_MASK = "no-causal-mask"
ON_PURPOSE = "If every token may see every other token on purpose, {}."  # after a finding of NO_MASK


@dataclass(frozen=True)
class Report:
    """The result of `diagnose`.

    Attributes:
        subject: the name of the code.
        findings: the likeliest first, without the effects of other findings.
        checked: what was found to be right, in short sentences.
        remarks: what is worth knowing but no mistake.
    """

    subject: str
    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def status(self) -> int:
        """The exit status: 0 if nothing was found, 1 if something is wrong, 2 if the code could not be examined."""
        if self.ok:
            return 0
        return 2 if all(finding.prevents for finding in self.findings) else 1

    @property
    def mistakes(self) -> tuple[str | None, ...]:
        """The ids, in order."""
        return tuple(finding.mistake for finding in self.findings)

    def __repr__(self) -> str:
        return self.in_words()

    def in_words(self, not_causal: str = "give causal=False") -> str:
        """Return the report as text.

        Args:
            not_causal: how to say that every token may attend to every other token; depends on who calls the doctor.
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
        for sentences, intro in ((self.checked, "In order: "), (self.remarks, "Worth knowing: ")):
            lines += ["", *(f"{intro}{one}" for one in sentences)] if sentences else []
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """The result as a clause."""
        if any(finding.title.startswith(NOT_EXAMINED) for finding in self.findings):
            return "it could not be examined."
        if self.ok:
            return "this is attention, nothing wrong was found."
        return "one thing is wrong." if len(self.findings) == 1 else f"{len(self.findings)} things are wrong."

    def _repr_html_(self) -> str:
        """Return the report as HTML, with its pictures; the hints unfold."""
        items = [f"<li>{_as_html(finding)}</li>" for finding in self.findings]
        headline = f"<p><strong>{escape(f'{self.subject}: {self.verdict}')}</strong></p>"
        parts = [headline, *(["<ol>", *items, "</ol>"] if items else [])]
        for sentences, intro in ((self.checked, "In order"), (self.remarks, "Worth knowing")):
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
