"""The exercises whose answer is what a function without arguments gives back, and their solutions."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.mutations import run_source

from .answer import Answer
from .exercise import Exercise
from .input_generator import InputGenerator
from .learner_error import LearnerError
from .verdict import Verdict, stopped


@dataclass(frozen=True, kw_only=True)
class ReturningExercise(Exercise):
    """An exercise of which the value that the answer gives back is judged."""

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        try:
            given = answer.call((), seed=0).result
        except LearnerError as error:
            return stopped(error, (self.name, answer.name), {})
        return self._judge_given(given)

    @abstractmethod
    def _judge_given(self, given: Any) -> Verdict: ...


def returning(name: str, lesson: str, answer: Any) -> Callable[[], Any]:
    """Make a function without arguments that gives the answer back, with source code like a solution's."""
    source = f"def {name}():\n    return {answer!r}\n"
    return run_source(source, f"<{name} {answer!r}>", {"__name__": f"{__package__}.lesson_{lesson}"})[name]
