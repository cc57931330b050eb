"""What `check` adds to a judge's verdict from the tries before: it says more each time the same mistake comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.diagnosis import CATALOGUE

from .exercise import Exercise
from .links import lesson_page, mistake_page
from .sections import SECTIONS
from .tries import Try
from .verdict import Line, Verdict

SAME_CODE = "This is the same code as at the last check. Did the cell with your answer run without an error?"


@dataclass(frozen=True, repr=False)
class Told(Verdict):
    """A verdict that says more than the judge did.

    Attributes:
        told: all lines beside the sentence.
    """

    told: tuple[Line, ...] = ()

    def lines(self) -> list[Line]:
        """What is said beside the sentence."""
        return list(self.told)


def told(exercise: Exercise, now: Try, trouble: str) -> Verdict:
    """Add what there is to add.

    Args:
        exercise: that was checked.
        now: the check, with what it has in common with the ones before.
        trouble: a sentence about the file that keeps progress, or "".

    Returns:
        The judge's verdict itself where nothing is to be added.
    """
    verdict = now.verdict
    before = [Line("", SAME_CODE)] if now.repeated and not verdict else []
    after = [*_more(exercise, now), *([Line("", trouble)] if trouble else [])]
    return Told(**vars(verdict), told=(*before, *verdict.lines(), *after)) if before or after else verdict


def _more(exercise: Exercise, now: Try) -> Iterator[Line]:
    """The first try gets a question alone, which is the judge's; the second a hint; the third where to read on."""
    mistake = CATALOGUE.get(now.verdict.mistake)
    if mistake is None:  # the hints that fold out below the check
        yield from (Line("Hint", hint) for hint in exercise.hints[: min(max(now.alike - 1, 0), 2)])
        return
    if now.alike >= 2:
        yield Line("Hint", mistake.shows)
    if now.alike >= 3:
        section, page = SECTIONS.get(mistake.id), mistake_page(mistake.id)
        if section:
            place = lesson_page(mistake.lesson, section)
            yield Line("Read the section", f"{section}, in lesson {mistake.lesson}", place)
        if page:
            yield Line("See it beside the right code", page, page)
