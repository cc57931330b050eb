"""The exercises whose answer is a sentence or two, which a person reads: no check judges them."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .returning import ReturningExercise, returning
from .verdict import NEEDS_REVIEW, Verdict, not_passed, not_written

QUESTIONS = Path(__file__).with_name("written_questions.toml")


@dataclass(frozen=True, kw_only=True)
class WrittenExercise(ReturningExercise):
    """A question in words; the solution gives back one good answer.

    Attributes:
        look_for: What a good answer says, for whoever gives the points.
    """

    look_for: tuple[str, ...]

    def _judge_given(self, given: Any) -> Verdict:
        if not isinstance(given, str):
            return not_passed(f"Let the function give a text back, in quotes; it gives back a {type(given).__name__}.")
        return Verdict(NEEDS_REVIEW, f"“{' '.join(given.split())}”") if given.split() else not_written()


@cache
def written_exercises() -> dict[str, WrittenExercise]:
    """Return the question in words of each lesson that has one, by its name, such as "explain_04"."""
    questions = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    found = [
        WrittenExercise(
            returning(f"explain_{lesson}", lesson, question["answer"]),
            title="In your own words",
            difficulty=2,
            minutes=4,
            prompt=(
                f"{question['asked']}\n\nLet the function give one or two sentences of yours back. Your teacher reads "
                "them; no check can."
            ),
            hints=(),
            look_for=tuple(question["look_for"]),
        )
        for lesson, question in questions.items()
    ]
    return {exercise.name: exercise for exercise in found}
