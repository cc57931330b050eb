"""Count the guesses that students share: how they were spread, and what the lesson gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from course_grader.manifest import Release
from course_grader.submissions import Guesses
from course_lib.exercises import predictions

FEWEST = 3  # who share a guess: with fewer, the page would say whose it is
MAX_SHOWN = 8  # different guesses at one question


class GuessCount(NamedTuple):
    """How the guesses at one question of a lesson were spread.

    Attributes:
        lesson, number: Of the question.
        question: As the lesson asks it.
        guesses: (guess, number of students); the most frequent come first.
        others: The number of students with further guesses.
        answer: What the lesson gave most of them.
    """

    lesson: str
    number: int
    question: str
    guesses: Sequence[tuple[str, int]]
    others: int
    answer: str


def count_guesses(shared: Sequence[Guesses], release: Release) -> Iterator[GuessCount]:
    """Yield a count for each question of the release's lessons at which enough students share a guess."""
    for lesson in sorted({exercise.lesson for exercise in release.exercises}):
        asked = ()
        with suppress(OSError, LookupError, ValueError):  # an installation without notebooks
            asked = predictions(lesson)
        for number, prediction in enumerate(asked, 1):
            said = [guesses[lesson][number] for guesses in shared if number in guesses.get(lesson, ())]
            if len(said) >= FEWEST:
                counts, answers = (Counter(column) for column in zip(*said, strict=True))
                shown = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_SHOWN]
                others = len(said) - sum(count for _, count in shown)
                answer = max(sorted(answers), key=lambda text: answers[text])
                yield GuessCount(lesson, number, prediction.question, shown, others, answer)
