"""What this kernel remembers of the last check of each exercise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .verdict import NOT_PASSED, Verdict


@dataclass(frozen=True)
class Try:
    """One check.

    Attributes:
        answer: what was checked.
        verdict: of the judge.
        alike: how many wrong tries in a row, this one included, made the same mistake; 0 for one that isn't wrong.
        repeated: whether it is the very code of the check before, with the same verdict. (With another verdict
            something changed after all: a function that it calls.)
    """

    answer: Any
    verdict: Verdict
    alike: int = 0
    repeated: bool = False


_LAST: dict[str, Try] = {}


def remember(answer: Any, verdict: Verdict) -> Try:
    """Compare a check with the last one of the same exercise, and take its place."""
    last = _LAST.get(verdict.name)
    repeated = last is not None and last.answer is answer and callable(answer) and last.verdict == verdict
    if repeated:
        now = Try(answer, verdict, last.alike, True)
    elif verdict.state != NOT_PASSED:
        now = Try(answer, verdict)
    else:
        now = Try(answer, verdict, last.alike + 1 if last and _mistake(last.verdict) == _mistake(verdict) else 1)
    _LAST[verdict.name] = now
    return now


def state(name: str) -> str | None:
    """How the last check of an exercise in this kernel ended, or None before the first."""
    return _LAST[name].verdict.state if name in _LAST else None


def _mistake(verdict: Verdict) -> tuple[str, str]:
    """What makes two wrong answers alike: the mistake's name, or, where it has none, what is said of it."""
    return verdict.state, verdict.mistake or verdict.says
