"""The doctor's findings and remarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from course_lib.about import page_of
from course_lib.tracing import error_message, last_line

from .catalogue import CATALOGUE

if TYPE_CHECKING:
    from course_lib.pictures import Picture

Draw = Callable[[], "Picture | None"]
NOT_EXAMINED = "It could not be examined"
GIVE_CONTEXT = "give `context`, the tensor that keys and values are made from"
FOREIGN_KEYS = f"{NOT_EXAMINED}: its keys are not made from x."
UNSEEN_WINDOW = f"{NOT_EXAMINED}: whether it keeps to its window."
LEAKS_BEHIND = "behind its attention, a later token reaches an earlier output"
LEAKS_OUTSIDE = "outside of its attentions, hidden tokens are seen"
AS_EXPECTED = "it computes what `expect` computes"
NOT_AS_EXPECTED = "it does not compute what `expect` computes"
NOT_JUDGED = "the scale of the scores was not judged"
RANDOM = "its output is random"
DIFFERS = "It differs from attention in this way: "
MORE_HIDDEN = f"{DIFFERS}tokens that should be seen are not."
COULD_NOT_RUN = "It could not be run"


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
    """

    mistake: str | None
    evidence: str
    where: str | None = None
    title: str = ""
    hint: str = ""
    lesson: str | None = None
    draw: Draw | None = field(default=None, repr=False, compare=False)

    @classmethod
    def named(cls, mistake: str, evidence: str, where: str | None = None, draw: Draw | None = None) -> Finding:
        """Return a finding with the catalogue's title, hint and lesson."""
        entry = CATALOGUE[mistake]
        return cls(mistake, evidence, where, entry.title, entry.hint, entry.lesson, draw)

    @classmethod
    def unnamed(cls, difference: str, evidence: str, where: str | None = None, draw: Draw | None = None) -> Finding:
        """Return a finding without an entry in the catalogue; `difference` completes "It differs ... in this way:"."""
        return cls(None, evidence, where, f"{DIFFERS}{difference}.", draw=draw)

    @classmethod
    def of_error(cls, error: BaseException, remedy: str = "") -> Finding:
        """Return a finding for code that raised, with the message and the line of the error."""
        return cls(None, f"{error_message(error)}{remedy}", last_line(error), f"{COULD_NOT_RUN}.")

    @property
    def examined(self) -> bool:
        """Whether it is about what the code computes, and not about why that could not be seen."""
        return not self.title.startswith((NOT_EXAMINED, COULD_NOT_RUN))

    @property
    def source(self) -> str:
        """The text of the line to look at; "" if it is unavailable."""
        return getattr(self.where, "text", "")

    @property
    def picture(self) -> Picture | None:
        """The picture that shows the mistake, or None."""
        return self.draw() if self.draw is not None else None

    def as_dict(self) -> dict[str, str | int | None]:
        """Return the attributes, the position for an editor and the address of the mistake's page as plain data."""
        names = ("mistake", "title", "evidence", "where", "source", "hint", "lesson")
        position = {name: getattr(self.where, name, None) for name in ("path", "line", "end_line", "column")}
        return {name: getattr(self, name) for name in names} | position | {"url": page_of(self.mistake)}
