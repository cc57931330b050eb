"""What the doctor says: findings in words, as data and, in a notebook, with the picture that shows the mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from course_lib.about import page_of, version

from .catalogue import CATALOGUE

if TYPE_CHECKING:
    from course_lib.pictures import Picture


NOT_EXAMINED = "It could not be examined"
ON_PURPOSE = "If every token may see every other token on purpose, {}."  # after a finding of NO_MASK
NO_MASK = "no-causal-mask"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        mistake: id in the catalogue, or None for what has no name there.
        evidence: what was measured, with numbers.
        where: "file.py:12" or "cell:3", the line to look at, or None where no line is to blame.
        source: what is written there.
        title: one sentence that says what is wrong.
        hint: a question that leads to it.
        lesson: number of the lesson that teaches it, or None.
    """

    mistake: str | None
    evidence: str
    where: str | None = None
    title: str = ""
    hint: str = ""
    lesson: str | None = None
    draw: Callable[[], Picture | None] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def named(cls, mistake: str, evidence: str, where: str | None = None, draw: Any = None) -> Finding:
        """A finding with the catalogue's words."""
        entry = CATALOGUE[mistake]
        return cls(mistake, evidence, where, entry.title, entry.hint, entry.lesson, draw)

    @property
    def source(self) -> str:
        """What is written in the line to look at; "" where it can't be had."""
        return getattr(self.where, "text", "")

    @property
    def picture(self) -> Picture | None:
        """The picture that makes it visible, or None."""
        return self.draw() if self.draw is not None else None

    def as_dict(self) -> dict[str, str | int | None]:
        """Plain data; besides the attributes the place for an editor, and the address of the mistake's page."""
        names = ("mistake", "title", "evidence", "where", "source", "hint", "lesson")
        place = {name: getattr(self.where, name, None) for name in ("path", "line", "end_line", "column")}
        return {name: getattr(self, name) for name in names} | place | {"url": page_of(self.mistake)}


@dataclass(frozen=True)
class Report:
    """The result of `diagnose`.

    Attributes:
        patient: what was examined, in a word.
        findings: the likeliest first; what follows from another finding is left out.
        checked: what was found to be in order, in short sentences.
        remarks: what is no mistake but worth knowing.
    """

    patient: str
    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def mistakes(self) -> tuple[str | None, ...]:
        """The ids, in order."""
        return tuple(finding.mistake for finding in self.findings)

    def __repr__(self) -> str:
        return self.in_words()

    def in_words(self, not_causal: str = "give causal=False") -> str:
        """Write the report as text.

        Args:
            not_causal: how to say that every token may see every other one; depends on who asks the doctor.
        """
        lines = [f"{self.patient}: {self.verdict}"]
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
        for words, intro in ((self.checked, "In order: "), (self.remarks, "Worth knowing: ")):
            lines += ["", *(f"{intro}{one}" for one in words)] if words else []
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """The result in a clause."""
        if any(finding.title.startswith(NOT_EXAMINED) for finding in self.findings):
            return "it could not be examined."
        if self.ok:
            return "this is attention, nothing wrong was found."
        return "one thing is wrong." if len(self.findings) == 1 else f"{len(self.findings)} things are wrong."

    def _repr_html_(self) -> str:
        from .report_html import as_html

        return as_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for `course doctor --json` and other programs."""
        return {
            "version": version(),
            "patient": self.patient,
            "ok": self.ok,
            "findings": [finding.as_dict() for finding in self.findings],
            "checked": list(self.checked),
            "remarks": list(self.remarks),
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)
