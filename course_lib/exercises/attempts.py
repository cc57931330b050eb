"""Remember the last check of each exercise in this kernel."""

from dataclasses import dataclass
from typing import Any

from .verdict import NOT_PASSED, Verdict


@dataclass(frozen=True)
class Attempt:
    """One check of an answer, compared with the check before it.

    Attributes:
        answer: the answer that was checked.
        verdict: the judge's verdict.
        streak: how many wrong checks in a row, this one included, found the same mistake; 0 if it is not wrong.
        unchanged: whether answer and verdict are those of the check before. The same answer gets another verdict
            when something else was changed, such as a function that it calls.
    """

    answer: Any
    verdict: Verdict
    streak: int = 0
    unchanged: bool = False


_LAST: dict[str, Attempt] = {}


def remember(answer: Any, verdict: Verdict) -> Attempt:
    """Compare a check with the last check of the same exercise, and remember the new check."""
    last = _LAST.get(verdict.name)
    if last is not None and last.answer is answer and callable(answer) and last.verdict == verdict:
        attempt = Attempt(answer, verdict, last.streak + (verdict.state == NOT_PASSED), True)
    elif verdict.state != NOT_PASSED:
        attempt = Attempt(answer, verdict)
    else:
        same_mistake = last is not None and _mistake(last.verdict) == _mistake(verdict)
        attempt = Attempt(answer, verdict, last.streak + 1 if last and same_mistake else 1)
    _LAST[verdict.name] = attempt
    return attempt


def last_state(name: str) -> str | None:
    """Return the state of an exercise after its last check in this kernel, or None before the first."""
    return _LAST[name].verdict.state if name in _LAST else None


def _mistake(verdict: Verdict) -> tuple[str, str]:
    """Return what identifies a mistake: its id in the catalogue or, if it has none, the message."""
    return verdict.state, verdict.mistake or verdict.message
