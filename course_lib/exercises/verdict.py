"""The result of checking one exercise, as text and as HTML."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

from course_lib.markup import backticks_to_code
from course_lib.mistakes import CATALOGUE
from course_lib.wording import without_addresses

from .learner_error import LearnerError
from .links import lesson_page, mistake_page

PASSED, NOT_PASSED, NOT_WRITTEN = "passed", "not passed yet", "not written yet"
NEEDS_REVIEW = "needs a teacher's look"  # of what can neither be passed nor refused
SIGNS = {PASSED: "✓", NOT_PASSED: "✗", NOT_WRITTEN: "…", NEEDS_REVIEW: "?"}
# A colour accompanies the text and never replaces it.
_COLOURS = {PASSED: "#2e7d32", NOT_PASSED: "#c62828", NOT_WRITTEN: "#757575", NEEDS_REVIEW: "#b26a00"}


class Detail(NamedTuple):
    """One line below a verdict's message: its label (or ""), its text, and the link behind the text in a notebook."""

    label: str
    text: str
    link: str | None = None


@dataclass(frozen=True)
class Verdict:
    """The result of one check. It is true if the exercise is passed.

    Attributes:
        state: PASSED, NOT_PASSED, NOT_WRITTEN or NEEDS_REVIEW.
        message: one sentence on what is right or wrong.
        mistake: id of the mistake in the catalogue, or None.
        evidence: what was measured, one sentence each.
        where: the source line that is wrong, such as "cell:3" or "file.py:12", or None.
        hint: a question that leads on, or None.
        lesson: number of the lesson that teaches it, or None.
        name: name of the exercise.
        share: of an answer that is not passed, how much of the exercise is right all the same, from 0 to 1.
        own_hint: whether the hint is not the catalogue's, whose words don't fit the exercise.
    """

    state: str
    message: str
    mistake: str | None = None
    evidence: tuple[str, ...] = ()
    where: str | None = None
    hint: str | None = None
    lesson: str | None = None
    name: str = ""
    own_hint: bool = False
    share: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the exercise is passed."""
        return self.state == PASSED

    def __bool__(self) -> bool:
        return self.passed

    def of(self, name: str, lesson: str) -> Verdict:
        """Return the verdict with the name of its exercise, and with a lesson that is not later than its own.

        What an answer gave back or raised is worded by here, so this leaves out where objects lie in memory.
        """
        message, *evidence = map(without_addresses, (self.message, *self.evidence))
        lesson = min(self.lesson or lesson, lesson)
        return replace(self, name=name, lesson=lesson, message=message, evidence=tuple(evidence))

    def details(self) -> list[Detail]:
        """Return the details below the message."""
        details = [Detail("", sentence) for sentence in self.evidence]
        if self.mistake:
            details.append(Detail("This mistake is called", self.mistake, mistake_page(self.mistake)))
        if self.where:
            text = getattr(self.where, "text", "")
            shown = text and len(text) < 120 and f"`{text}`" not in self.message
            details.append(Detail("Line", f"{self.where}, `{text}`" if shown else self.where))
        if self.hint:
            details.append(Detail("Ask yourself", self.hint))
        if self.state == NOT_PASSED and self.lesson:
            details.append(Detail("Look again at lesson", self.lesson, lesson_page(self.lesson)))
        return details

    def __repr__(self) -> str:
        lines = [f"{label}: {text}" if label else text for label, text, _ in self.details()]
        return "\n  ".join([f"{SIGNS[self.state]} {self.name}: {self.state}. {self.message}", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{_item(detail)}</li>" for detail in self.details())
        edge = f"border-left: 4px solid {_COLOURS[self.state]}; padding-left: 0.8em"
        head = (
            f"<strong>{SIGNS[self.state]} {escape(self.name)}: {self.state}.</strong> {backticks_to_code(self.message)}"
        )
        return f'<div style="{edge}"><p>{head}</p>{f"<ul>{rows}</ul>" if rows else ""}</div>'


def passed(message: str, evidence: tuple[str, ...] = ()) -> Verdict:
    """Return the verdict on a right answer."""
    return Verdict(PASSED, message, evidence=evidence)


def not_written(stub: str = "") -> Verdict:
    """Return the verdict on a stub, of which the text is given if it is not a first line with an error below."""
    what = "Put your code in place of `raise NotImplementedError`"
    if stub and "NotImplementedError" not in stub:
        what = "Write the class in place of the dots" if "\n" not in stub else "Fill in the gaps, `...`,"
    return Verdict(NOT_WRITTEN, f"{what} and run both cells again.")


def not_passed(
    message: str,
    mistake: str | None = None,
    *,
    evidence: tuple[str, ...] = (),
    where: str | None = None,
    hint: str | None = None,
) -> Verdict:
    """Return the verdict on a wrong answer; a hint that is not given, and the lesson, come from the catalogue."""
    entry = CATALOGUE.get(mistake or "")
    asked, lesson = (hint or entry.hint, entry.lesson) if entry else (hint, None)
    return Verdict(NOT_PASSED, message, mistake, evidence, where, asked, lesson, own_hint=hint is not None)


def stopped(
    error: LearnerError,
    names: Collection[str],
    axes: Mapping[int, str],
    evidence: tuple[str, ...] = (),
    arguments: Mapping[Any, str] | None = None,
) -> Verdict:
    """Return the verdict on an answer whose code raised an error.

    Args:
        error: What was raised.
        names: What the answer is called. If its own stub raised the error, it is not written; another stub is named.
        axes: Size -> the name of the axis that has it, in this call.
        evidence: What is known besides.
        arguments: Name or shape of an argument -> the names of its axes.
    """
    if error.unwritten in names:
        return not_written()
    if error.is_of_gap:
        return Verdict(NOT_WRITTEN, f"A gap, `...`, is still open{f' at `{error.source}`' if error.source else ''}.")
    if error.unwritten:
        sentence = f"Your code calls `{error.unwritten}`, which is not written yet."
        return not_passed(sentence, where=error.where, hint=f"Can you write `{error.unwritten}` first?")
    shapes, question = error.explain(axes, arguments)
    return not_passed(error.sentence, evidence=(*shapes, *evidence), where=error.where, hint=question)


def _item(detail: Detail) -> str:
    text = backticks_to_code(detail.text)
    if detail.link:
        text = f'<a href="{escape(detail.link)}">{text}</a>'
    return f"{escape(detail.label)}: {text}" if detail.label else text
