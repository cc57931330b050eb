"""Add details to a judge's verdict, more each time the same mistake comes back."""

from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.mistakes import CATALOGUE

from .attempts import Attempt
from .exercise import Exercise
from .links import lesson_page, mistake_page
from .verdict import Detail, Verdict

SAME_CODE = "This is the same code as at the last check. Did the cell with your answer run without an error?"


@dataclass(frozen=True, repr=False)
class ExtendedVerdict(Verdict):
    """A verdict with more details than the judge gave, all of them in `all_details`."""

    all_details: tuple[Detail, ...] = ()

    def details(self) -> list[Detail]:
        """Return the details below the message."""
        return list(self.all_details)


def follow_up(exercise: Exercise, attempt: Attempt, warning: str) -> Verdict:
    """Add the details that earlier attempts call for.

    Args:
        exercise: the exercise that was checked.
        attempt: the check, compared with those before.
        warning: one sentence about the file that keeps progress, or "".

    Returns:
        The judge's verdict itself where there is nothing to add.
    """
    verdict = attempt.verdict
    before = [Detail("", SAME_CODE)] if attempt.unchanged and not verdict else []
    after = [*_further_hints(exercise, attempt), *([Detail("", warning)] if warning else [])]
    if not before and not after:
        return verdict
    return ExtendedVerdict(**vars(verdict), all_details=(*before, *verdict.details(), *after))


def _further_hints(exercise: Exercise, attempt: Attempt) -> Iterator[Detail]:
    """Yield a hint from the second attempt on, and links for further reading from the third on."""
    mistake = CATALOGUE.get(attempt.verdict.mistake or "")
    if mistake is None or attempt.verdict.own_hint:
        yield from (Detail("Hint", hint) for hint in exercise.hints[: min(max(attempt.streak - 1, 0), 2)])
    elif attempt.streak >= 2:
        yield Detail("Hint", mistake.shows)
    if mistake is None:
        return
    if attempt.streak >= 3:
        if mistake.section:
            link = lesson_page(mistake.lesson, mistake.section)
            yield Detail("Read the section", f"{mistake.section}, in lesson {mistake.lesson}", link)
        if page := mistake_page(mistake.id):
            yield Detail("See it beside the right code", page, page)
