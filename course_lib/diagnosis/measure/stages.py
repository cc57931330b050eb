"""The stages of a diagnosis, each of which is measured from earlier stages when it is first needed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, TypeVar, get_type_hints

from .attention import Attention, measure_attention
from .dependence import Dependence, measure_dependence
from .rotary_angles import RotaryAngles
from .rows import Rows, find_rows
from .run import Attempt, NotFound, Run
from .scores import Scores, find_scores
from .second_prompt import FreshRuns, SecondPrompt, check_fresh_runs, run_second_prompt
from .softmax_path import SoftmaxPath, find_softmax_path
from .structure import Structure, find_structure
from .visibility import Visibility

Stage = TypeVar("Stage")


@dataclass(frozen=True, eq=False)
class NoStructure:
    """A run in which the products of attention can't be found.

    Attributes:
        run: its output is a tensor.
        reason: what is missing, in words.
    """

    run: Run
    reason: str


# stage -> function that measures it from the stages that its parameters name, or returns None
MEASUREMENTS: dict[type, Callable[..., Any]] = {
    Dependence: measure_dependence,
    Structure: find_structure,
    Scores: find_scores,
    SoftmaxPath: find_softmax_path,
    Rows: find_rows,
    Attention: measure_attention,
    Visibility: Visibility,
    RotaryAngles: RotaryAngles,
    SecondPrompt: run_second_prompt,
    FreshRuns: check_fresh_runs,
}


class Stages:
    """The stages that one run reaches, starting with the attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self._reached: dict[type, Any] = {type(attempt): attempt}

    def reach(self, kind: type[Stage]) -> Stage | None:
        """Measure a stage once; None if the run does not reach it."""
        if kind not in self._reached and kind in MEASUREMENTS:
            needed = self.arguments(MEASUREMENTS[kind])
            self._reached[kind] = None if needed is None else self._measure(kind, needed)
        return self._reached.get(kind)

    def arguments(self, function: Callable[..., Any]) -> list[Any] | None:
        """Return the stages that a function's parameters name by their types; None if any of them can't be reached."""
        found = [self.reach(kind) for kind in stages_of(function)]
        return None if any(one is None for one in found) else found

    def _measure(self, kind: type, arguments: list[Any]) -> Any:
        try:
            return MEASUREMENTS[kind](*arguments)
        except NotFound as missing:
            reason = str(missing)
        except Exception as error:  # the subject's code may do anything
            reason = f"its operations could not be analysed ({type(error).__name__}: {error})"
        if isinstance(self.attempt, Run):
            self._reached[NoStructure] = NoStructure(self.attempt, reason)
        return None


@cache
def stages_of(function: Callable[..., Any]) -> tuple[type, ...]:
    """Return the types of a function's parameters, which are the stages that it needs."""
    hints = get_type_hints(function)
    return tuple(hints[name] for name in signature(function).parameters)


def when_reached(function: Callable[..., Any]) -> tuple[int, int]:
    """Return what is the lower, the sooner a function's stages are measured, then the more of them it reads.

    What the run alone tells comes last.
    """
    order, needed = [*MEASUREMENTS, NoStructure], stages_of(function)
    return max((order.index(kind) for kind in needed if kind in order), default=len(order)), -len(needed)
