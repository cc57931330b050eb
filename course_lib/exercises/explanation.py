"""What a wrong answer computes: the slip in the solution that gives the same results."""

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any

import torch

from course_lib.tracing import tensors_in

from .copies import built
from .differences import equal
from .exercise import Case
from .input_generator import InputGenerator
from .mutants import Mutant, mutants, pairs

# Errors of code on inputs for which it is not defined.
UNDEFINED = (RuntimeError, ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError)
STOPS = (*UNDEFINED, NameError, AttributeError)
FRESH = 1009  # the seed of calls on which an explanation must hold, too
PAIRED = 60  # slips of which any two are tried together
SEVERAL = 3  # explanations that may fit a wrong result: more of them are chance

Extract = Callable[[Any, Case], Any]


def gives(
    code: Callable[..., Any], cases: Sequence[Case], results: Sequence[Any], extract: Extract, first: int = 0
) -> bool:
    """Return whether code gives the results of some calls, as far as there are results.

    Args:
        code: The function.
        cases: The calls.
        results: What an answer gave back for them.
        extract: Takes the values to compare out of what code gives back.
        first: The call in which most code gives something else.
    """
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in sorted(range(len(results)), key=lambda at: at != first):
            arguments = built(cases[seed].arguments)
            # As for the answer, so that random numbers of its own can be recognized.
            torch.default_generator.manual_seed(seed)
            try:
                other = extract(code(*arguments), cases[seed])
            except STOPS:
                return False
            if not equal(results[seed], other):
                return False
    return True


class Explanations:
    """The slips that may explain wrong results of one exercise.

    Args:
        solution: The right function.
        draw: Draws calls.
        extract: Takes the values to compare out of what a function gives back.
        named: Argument -> the names of its axes.
        axes: The names of the result's axes.
    """

    def __init__(
        self,
        solution: FunctionType,
        draw: Callable[[InputGenerator], Sequence[Case]],
        extract: Extract,
        named: Mapping[str, str],
        axes: Sequence[str],
    ) -> None:
        self.solution, self.draw, self.extract, self.named, self.axes = solution, draw, extract, named, axes
        self.cases = draw(InputGenerator(0))

    @cached_property
    def mutants(self) -> tuple[Mutant, ...]:
        """The solution with one slip each, whose words are those of a call in which all sizes differ."""
        case = next((case for case in self.cases if not case.about), self.cases[0])
        return tuple(mutants(self.solution, case.arguments, self.named, self.axes))

    @cached_property
    def pairs(self) -> tuple[Mutant, ...]:
        """The solution with two slips, of the likeliest that differ from it and from each other."""
        distinct: dict[Any, Mutant] = {}
        for mutant in (Mutant("", self.solution), *self.mutants):
            with contextlib.suppress(*STOPS), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = [self.extract(mutant.code(*built(case.arguments)), case) for case in self.cases]
                distinct.setdefault(_rounded(results), mutant)
        return tuple(pairs(self.solution, [*distinct.values()][1 : 1 + PAIRED]))

    def find(
        self,
        cases: Sequence[Case],
        results: Sequence[Any],
        first: int,
        call: Callable[[Sequence[Case]], Sequence[Any] | None],
    ) -> Mutant | None:
        """Return what gives the results, of these calls and of fresh ones; None if nothing does, or much.

        Args:
            cases: The calls.
            results: What the answer gave back for them.
            first: The first call whose result is wrong.
            call: Calls the answer again; None if it stops.
        """
        if _are_all_alike(results) or gives(self.solution, cases, results, self.extract):
            return None  # whatever gives the same everywhere; or what is wrong is no number
        # One number per call is too little to tell two slips from chance.
        kinds = (lambda: self.mutants, lambda: self.pairs)[: 1 if all(map(_is_number, results)) else 2]
        for kind in kinds:
            if found := [one for one in kind() if gives(one.code, cases, results, self.extract, first)]:
                fresh = self.draw(InputGenerator(FRESH))
                if (again := call(fresh)) is None:
                    return None
                found = [one for one in found if gives(one.code, fresh, again, self.extract)]
                return found[0] if 0 < len({one.words for one in found}) <= SEVERAL else None
        return None


def _rounded(results: Sequence[Any]) -> Any:
    """Results as a key: to four decimals, with the shapes of tensors."""
    tensors = [tensor.detach() for one in results for tensor in tensors_in(one)]
    numbers = [] if tensors else results
    return repr(numbers), *((tuple(one.shape), one.double().round(decimals=4).numpy().tobytes()) for one in tensors)


def _is_number(result: Any) -> bool:
    return isinstance(result, (bool, int, float)) or (isinstance(result, torch.Tensor) and result.numel() == 1)


def _are_all_alike(results: Sequence[Any]) -> bool:
    """Whether all results hold one and the same number."""
    tensors = [tensor.detach().double().unique()[:2].tolist() for one in results for tensor in tensors_in(one)]
    numbers = [one for one in results if isinstance(one, (bool, int, float))]
    return len({*numbers, *(value for values in tensors for value in values)}) < 2
