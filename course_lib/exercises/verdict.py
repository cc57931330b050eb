"""What the check of one exercise found, in words first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import NamedTuple

from course_lib.markup import code_words

from .links import lesson_page, mistake_page

PASSED, NOT_PASSED, NOT_WRITTEN = "passed", "not passed yet", "not written yet"
LOOK = "needs a teacher's look"  # in a class only: what grading can neither pass nor refuse
SIGNS = {PASSED: "✓", NOT_PASSED: "✗", NOT_WRITTEN: "…", LOOK: "?"}
# Beside the words, never instead of them.
_COLOURS = {PASSED: "#2e7d32", NOT_PASSED: "#c62828", NOT_WRITTEN: "#757575", LOOK: "#b26a00"}


class Line(NamedTuple):
    """Something that is said of an answer: what it is (or ""), the words, and where they lead in a notebook."""

    label: str
    words: str
    link: str | None = None


@dataclass(frozen=True)
class Verdict:
    """The result of one check. It is true where the exercise is passed.

    Attributes:
        state: PASSED, NOT_PASSED, NOT_WRITTEN or LOOK.
        says: one sentence: what is right, or what is wrong.
        mistake: id of the catalogue of mistakes, where the mistake has a name.
        evidence: what was measured, a sentence each.
        where: the line to blame, "cell:3" or "file.py:12", where there is one.
        hint: a question that leads on.
        lesson: number of the lesson that teaches it.
        name: of the exercise.
    """

    state: str
    says: str
    mistake: str | None = None
    evidence: tuple[str, ...] = ()
    where: str | None = None
    hint: str | None = None
    lesson: str | None = None
    name: str = ""

    @property
    def passed(self) -> bool:
        """Whether the exercise is done."""
        return self.state == PASSED

    def __bool__(self) -> bool:
        return self.passed

    def of(self, name: str, lesson: str) -> Verdict:
        """The same verdict with the name of its exercise, and its lesson where no other one is named."""
        return replace(self, name=name, lesson=self.lesson or lesson)

    def lines(self) -> list[Line]:
        """What is said beside the sentence."""
        lines = [Line("", sentence) for sentence in self.evidence]
        if self.mistake:
            lines.append(Line("This mistake is called", self.mistake, mistake_page(self.mistake)))
        if self.where:
            lines.append(Line("Line", self.where))
        if self.hint:
            lines.append(Line("Ask yourself", self.hint))
        if self.state == NOT_PASSED and self.lesson:
            lines.append(Line("Look again at lesson", self.lesson, lesson_page(self.lesson)))
        return lines

    def __repr__(self) -> str:
        lines = [f"{label}: {words}" if label else words for label, words, _ in self.lines()]
        return "\n  ".join([f"{SIGNS[self.state]} {self.name}: {self.state}. {self.says}", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{_item(line)}</li>" for line in self.lines())
        edge = f"border-left: 4px solid {_COLOURS[self.state]}; padding-left: 0.8em"
        head = f"<strong>{SIGNS[self.state]} {escape(self.name)}: {self.state}.</strong> {code_words(self.says)}"
        return f'<div style="{edge}"><p>{head}</p>{f"<ul>{rows}</ul>" if rows else ""}</div>'


def passed(says: str, evidence: tuple[str, ...] = ()) -> Verdict:
    """A verdict on a right answer."""
    return Verdict(PASSED, says, evidence=evidence)


def not_written() -> Verdict:
    """A verdict on a stub."""
    return Verdict(NOT_WRITTEN, "Put your code in place of `raise NotImplementedError` and run both cells again.")


def not_passed(says: str, mistake: str | None = None, **more: object) -> Verdict:
    """A verdict on a wrong answer; what the catalogue knows of the mistake is added where nothing else is given."""
    from course_lib.diagnosis import CATALOGUE

    if mistake in CATALOGUE:
        entry = CATALOGUE[mistake]
        more = {"hint": entry.hint, "lesson": entry.lesson} | {key: value for key, value in more.items() if value}
    return Verdict(NOT_PASSED, says, mistake, **more)


def _item(line: Line) -> str:
    words = f'<a href="{escape(line.link)}">{code_words(line.words)}</a>' if line.link else code_words(line.words)
    return f"{escape(line.label)}: {words}" if line.label else words
