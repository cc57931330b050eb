"""One exercise: what the learner reads, the right answer, and how answers are judged."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from course_lib.mutations import built, edited

from .answer import Answer
from .input_generator import InputGenerator
from .verdict import Verdict, not_written

if TYPE_CHECKING:
    from course_lib.pictures import Picture


class Case(NamedTuple):
    """The arguments of one call of a learner's function.

    Attributes:
        arguments: Plain data, tensors and `FromSource`.
        about: What is special about them, as a clause such as "the scores are about 2000"; "" if only sizes differ.
        trains: Whether gradients are compared although something is special about them.
    """

    arguments: tuple[Any, ...]
    about: str = ""
    trains: bool = False


class Wrong(NamedTuple):
    """A known wrong answer.

    Attributes:
        equals: Describes its result, such as "softmax over the queries".
        code: The function that computes it.
        mistake: Its id in the catalogue, or None.
        hint: A question that fits better than the catalogue's, or None.
    """

    equals: str
    code: Callable[..., Any]
    mistake: str | None = None
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class Exercise(ABC):
    """One exercise. Its name is that of the solution, its lesson that of the folder that the solution is written in.

    Attributes:
        solution: The right answer: the function or class itself, as the solutions' notebook shows it. The comment on
            its first line names the shapes that go in and come out.
        title: The task in a few words.
        difficulty: 1 (one line) to 5 (a cell that needs an afternoon of thought); it is also the number of points.
        minutes: How long it takes after the lesson.
        prompt: The task, in Markdown.
        hints: Each says more than the one before; the last nearly gives the answer.
        given: Code that stands in a cell above the stub, or "".
        stub: What the learner's cell holds instead of the solution's first line and `raise NotImplementedError`.
        variants: What other sheets of the same exercise have, each as attributes in place of these; `solution` is an
            edit of the solution's source there, "old => new".
    """

    solution: Callable[..., Any] = field(kw_only=False)
    title: str
    difficulty: int
    minutes: int
    prompt: str
    hints: tuple[str, ...]
    given: str = ""
    stub: str = ""
    variants: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The name of the function or class that the learner writes."""
        return self.solution.__name__

    @property
    def lesson(self) -> str:
        """The number of its lesson, such as "01"."""
        found = re.search(r"lesson_(\d\d)", self.solution.__module__)
        return found.group(1) if found else ""

    def judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        """Judge an answer on inputs that are drawn now.

        Args:
            answer: The learner's answer, in this process or in the grader's sandbox.
            rng: Where sizes and elements come from.
        """
        if answer.is_empty:
            return not_written(self.stub).of(self.name, self.lesson)
        return self._judge(answer, rng).of(self.name, self.lesson)

    @property
    def varies(self) -> bool:
        """Whether `varied` may ask for other answers."""
        return bool(self.variants)

    def varied(self, rng: InputGenerator) -> Exercise:
        """Return the exercise as one student's own sheet has it: as it is, or one of its variants."""
        chosen = rng.choice(({}, *self.variants))
        return self._edited(**chosen) if chosen else self

    def _edited(self, solution: str, **attributes: Any) -> Exercise:
        source = edited(inspect.getsource(self.solution), solution)
        return replace(self, solution=built(source, self.solution), variants=(), **attributes)

    def example(self, rng: InputGenerator) -> list[Any] | None:
        """Draw one call: a function's arguments, or a constructor's and then the input x; None if there is no call."""
        return None

    def picture(self, answer: Answer, rng: InputGenerator) -> Picture | None:
        """Draw what an answer does on inputs that are drawn now, for a learner's notebook; None for most exercises."""
        return None

    @abstractmethod
    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict: ...
