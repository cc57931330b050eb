"""The exercises whose answer is a number, a shape or a word that the solution gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .returning import ReturningExercise
from .review_answers import is_right, is_too_rough
from .verdict import Verdict, not_passed, passed


@dataclass(frozen=True, kw_only=True)
class QuestionExercise(ReturningExercise):
    """A question with drawn numbers; its answer counts however it is written, as in `review`.

    Attributes:
        why: One sentence that says why the answer is right.
        about: The number of the lesson that it is from.
    """

    why: str
    about: str

    def _judge_given(self, given: Any) -> Verdict:
        right = self.solution()
        if is_right(right, given):
            return passed(self.why)
        asked = (f"The question: {self.prompt.splitlines()[0]}",)
        if is_too_rough(right, given):
            return not_passed(f"{given!r} is near, but has too few right digits.", evidence=asked)
        return not_passed(f"{given!r} is not it.", evidence=asked, hint=f"What does lesson {self.about} say of it?")
