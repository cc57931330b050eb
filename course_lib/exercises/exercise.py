"""What is known of one exercise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .verdict import Verdict


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lesson.

    Attributes:
        name: of the function or class that the learner writes.
        lesson: number of its lesson, such as "01".
        title: what is to be done, in a few words.
        difficulty: 1 (a line) to 5 (an afternoon of thought in one cell).
        minutes: how long it takes who has done the lesson.
        judge: answer -> Verdict.
        hints: each says more than the one before; the last one nearly gives it away.
    """

    name: str
    lesson: str
    title: str
    difficulty: int
    minutes: int
    judge: Callable[[Any], Verdict]
    hints: tuple[str, ...]
