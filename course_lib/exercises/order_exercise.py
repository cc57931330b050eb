"""The exercises whose answer is the order of lines of code, which are then run in that order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .answer import Answer
from .differences import Expected, difference
from .exercise import Exercise
from .input_generator import InputGenerator
from .learner_error import LearnerError
from .lines_run import run_lines
from .verdict import Verdict, not_passed, passed, stopped

if TYPE_CHECKING:
    from course_lib.pictures import Picture


def listing(lines: Mapping[str, str]) -> str:
    """Return the lines below their letters, as a prompt shows them."""
    return "\n".join(f"# {letter}\n{line}" for letter, line in lines.items())


@dataclass(frozen=True, kw_only=True)
class OrderExercise(Exercise):
    """An exercise whose answer is a string of letters, one for each line, in the order in which the lines run.

    Any order passes in which every line finds what it reads and the result is right. The solution returns one.

    Attributes:
        lines: Letter -> a line of code, in the order in which the learner sees them.
        draw: Draws the names that exist before the first line.
        result: The name whose value is compared in the end.
    """

    lines: Mapping[str, str]
    draw: Callable[[InputGenerator], dict[str, Any]]
    result: str

    @property
    def varies(self) -> bool:
        """Whether `varied` may ask for other answers: it always does."""
        return True

    def varied(self, rng: InputGenerator) -> Exercise:
        """Return the exercise with the lines in another order, so that other letters are the answer."""
        former = rng.shuffled(list(self.lines))  # the letters that the lines had, from the first line to the last
        lines = {new: self.lines[old] for new, old in zip(self.lines, former, strict=True)}
        right = self.solution()
        own = right.translate(str.maketrans("".join(former), "".join(lines)))
        prompt = self.prompt.replace(listing(self.lines), listing(lines))
        return self._edited(f"{right} => {own}", lines=lines, prompt=prompt)

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        try:
            letters = self._letters(answer)
        except LearnerError as error:
            return stopped(error, (self.name, answer.name), {})
        if isinstance(letters, Verdict):
            return letters
        start = self.draw(rng)
        own, right = (run_lines([self.lines[one] for one in order], start) for order in (letters, self.solution()))
        if own.error is not None:
            return self._stopped(letters, len(own.made), own.error)
        found = difference(own.value(self.result), Expected(right.value(self.result)))
        if found:
            hint = "Which line reads a name before another line has changed it?"
            return not_passed(f"All lines run in this order, and the result is another. {found.sentence}", hint=hint)
        return passed(f"All {len(letters)} lines run in this order, and the result is right.")

    def picture(self, answer: Answer, rng: InputGenerator) -> Picture | None:
        """Draw the lines in the learner's order, up to the first that is wrong; None for no order of all lines."""
        from .order_picture import draw_order  # here, because grading draws nothing and should start soon

        try:
            letters = self._letters(answer)
        except LearnerError:
            return None
        if isinstance(letters, Verdict):
            return None
        return draw_order(letters, self.lines, self.solution(), self.draw(rng), self.result)

    def _letters(self, answer: Answer) -> str | Verdict:
        """Return the letters of an answer, each of which stands there once, or what is wrong with them.

        Raises:
            LearnerError: The answer raised an error.
        """
        given = answer.call((), seed=0).result
        if isinstance(given, (list, tuple)) and all(isinstance(one, str) for one in given):
            given = "".join(given)
        if not isinstance(given, str):
            return not_passed(
                f"The answer is of type {type(given).__name__}; it should be a string of letters such as 'ABC'."
            )
        letters = re.sub(r"[^A-Z]", "", given.upper())
        if sorted(letters) == sorted(self.lines):
            return letters
        missing = [letter for letter in self.lines if letter not in letters]
        what = f"{', '.join(missing)} is missing" if missing else "a letter stands there twice"
        hint = "Which letters have you used, and how often?"
        return not_passed(f"Each of the {len(self.lines)} letters is needed once, and {what}.", hint=hint)

    def _stopped(self, letters: str, index: int, error: Exception) -> Verdict:
        """Return the verdict on an order in which the line at an index raises an error."""
        letter = letters[index]
        line = f"Line {letter}, `{self.lines[letter]}`"
        ran = (f"The {index} lines before it run.",) if index > 1 else ()
        if isinstance(error, NameError):
            sentence = f"{line}, reads `{error.name}`, and no line before it makes that."
            return not_passed(sentence, evidence=ran, hint=f"Which line makes `{error.name}`?")
        sentence = f"{line}, can't be run at place {index + 1}: {str(error).splitlines()[0].rstrip('.')}."
        return not_passed(sentence, evidence=ran, hint="Which shape does it need, and which line gives that?")
