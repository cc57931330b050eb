"""The doctor's findings and remarks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from course_lib.about import page_of
from course_lib.mistakes import CATALOGUE, MEASURED, Origin, Step, Symptom
from course_lib.tracing import error_message, last_line

if TYPE_CHECKING:
    from course_lib.pictures import Picture

Draw = Callable[[], "Picture | None"]
GIVE_CONTEXT = "give `context`, the tensor that keys and values are made from"


class Kind(StrEnum):
    """What a finding says; `NOT_EXAMINED` and `FAILED` say why nothing could be seen."""

    MISTAKE = "mistake"
    DIFFERENCE = "difference"
    MORE_HIDDEN = "more-hidden"
    LEAK_BEHIND = "leak-behind"
    LEAK_OUTSIDE = "leak-outside"
    NOT_AS_EXPECTED = "not-as-expected"
    RANDOM = "random"
    UNSEEN_WINDOW = "unseen-window"
    NOT_EXAMINED = "not-examined"
    FAILED = "failed"


# What completes "It differs from attention in this way:" and "It could not be examined:".
CLAUSES = {
    Kind.MORE_HIDDEN: "tokens that should be seen are not",
    Kind.LEAK_BEHIND: "behind its attention, a later token reaches an earlier output",
    Kind.LEAK_OUTSIDE: "outside of its attentions, hidden tokens are seen",
    Kind.NOT_AS_EXPECTED: "it does not compute what `expect` computes",
    Kind.RANDOM: "its output is random",
    Kind.UNSEEN_WINDOW: "whether it keeps to its window",
}
UNSEEN = {Kind.UNSEEN_WINDOW, Kind.NOT_EXAMINED, Kind.FAILED}
UNNAMED = Origin()
RANDOM = Origin(Step.INPUT, Symptom.BEHAVIOUR, dict.fromkeys(MEASURED, "no two runs can be compared"))
FOREIGN_KEYS = "its keys are not made from x"


class AsExpected(str):
    """The remark on code that computes what `expect` computes."""

    __slots__ = ()


class NotJudged(str):
    """A remark on scores whose scale was not judged."""

    __slots__ = ()


NOT_JUDGED = "the scale of the scores was not judged"


@dataclass(frozen=True)
class Finding:
    """One mistake in the code.

    Attributes:
        mistake: id in the catalogue, or None if the catalogue has no entry for it.
        evidence: what was measured, with numbers.
        where: "file.py:12" or "cell:3", the line to look at, or None if no line is to blame.
        source: the text of that line.
        title: one sentence that says what is wrong.
        hint: a question that leads to it.
        lesson: number of the lesson that teaches it, or None.
        kind: what it says; whoever decides by a finding asks this, the mistake or the facts, and no sentence.
        facts: what was measured, name -> number, word or list, where somebody decides by it.
        rule: name of the rule, or of the scan's path, that found it; "" for what is found by neither.
    """

    mistake: str | None
    evidence: str
    where: str | None = None
    title: str = ""
    hint: str = ""
    lesson: str | None = None
    draw: Draw | None = field(default=None, repr=False, compare=False)
    kind: Kind = Kind.MISTAKE
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    rule: str = field(default="", repr=False, compare=False)

    @classmethod
    def named(
        cls, mistake: str, evidence: str, where: str | None = None, draw: Draw | None = None, **facts: Any
    ) -> Finding:
        """Return a finding with the catalogue's title, hint and lesson."""
        entry = CATALOGUE[mistake]
        return cls(mistake, evidence, where, entry.title, entry.hint, entry.lesson, draw, facts=facts)

    @classmethod
    def unnamed(
        cls, difference: Kind | str, evidence: str, where: str | None = None, draw: Draw | None = None
    ) -> Finding:
        """Return a finding without an entry in the catalogue, of a kind or by a clause of its own."""
        kind = difference if isinstance(difference, Kind) else Kind.DIFFERENCE
        title = f"It differs from attention in this way: {CLAUSES.get(kind, difference)}."
        return cls(None, evidence, where, title, draw=draw, kind=kind)

    @classmethod
    def unseen(cls, what: Kind | str, evidence: str, where: str | None = None) -> Finding:
        """Return a finding that says why something could not be examined, of a kind or by a clause of its own."""
        kind = what if isinstance(what, Kind) else Kind.NOT_EXAMINED
        return cls(None, evidence, where, f"It could not be examined: {CLAUSES.get(kind, what)}.", kind=kind)

    @classmethod
    def failed(cls, evidence: str, where: str | None) -> Finding:
        """Return a finding for code that could not be run."""
        return cls(None, evidence, where, "It could not be run.", kind=Kind.FAILED)

    @classmethod
    def of_error(cls, error: BaseException, remedy: str = "") -> Finding:
        """Return a finding for code that raised, with the message and the line of the error."""
        return cls.failed(f"{error_message(error)}{remedy}", last_line(error))

    @property
    def examined(self) -> bool:
        """Whether it is about what the code computes, and not about why that could not be seen."""
        return self.kind not in UNSEEN

    @property
    def origin(self) -> Origin:
        """The step that is wrong, in what it shows, and what else is found because of it."""
        return CATALOGUE[self.mistake].origin if self.mistake else RANDOM if self.kind is Kind.RANDOM else UNNAMED

    @property
    def in_plain_run(self) -> bool:
        """Whether a run as the caller gave it differs because of this."""
        return self.origin.symptom in (Symptom.BEHAVIOUR, Symptom.NUMBERS, Symptom.PIECES)

    @property
    def about(self) -> tuple[str | None, ...]:
        """What is equal in findings that say the same, wherever they say it."""
        return (self.mistake, self.kind, "" if self.mistake else self.rule)

    @property
    def source(self) -> str:
        """The text of the line to look at; "" if it is unavailable."""
        return getattr(self.where, "text", "")

    @property
    def picture(self) -> Picture | None:
        """The picture that shows the mistake, or None."""
        return self.draw() if self.draw is not None else None

    @property
    def decided_by(self) -> str:
        """The rule that found it, its kind and its facts, as `--json` has them, on one line."""
        named = {"rule": self.rule or None, "kind": str(self.kind), **self.facts}
        return ", ".join(f"{name}={json.dumps(value)}" for name, value in named.items())

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes, the position for an editor and the address of the mistake's page as plain data."""
        names = ("mistake", "title", "evidence", "where", "source", "hint", "lesson", "kind", "rule", "facts")
        position = {name: getattr(self.where, name, None) for name in ("path", "line", "end_line", "column")}
        plain = {name: getattr(self, name) for name in names} | {"kind": str(self.kind), "facts": dict(self.facts)}
        return plain | position | {"url": page_of(self.mistake)}
