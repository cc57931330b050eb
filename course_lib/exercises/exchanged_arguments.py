"""Find two arguments of one shape that an answer has exchanged."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from torch import Tensor

from .copies import built
from .differences import equal
from .exercise import Case
from .relations import Relation


def exchanged_arguments(
    solution: Callable[..., Any], cases: Sequence[Case], results: Sequence[Any], errors: tuple[type[Exception], ...]
) -> Relation | None:
    """Return the two arguments whose exchange in the solution gives the results, or None.

    Args:
        solution: The right function.
        cases: The calls.
        results: What the answer gave back, for as many calls as it came to.
        errors: What the solution may raise for arguments that stand in each other's place.
    """
    names = list(inspect.signature(solution).parameters)
    for first, second in combinations(range(len(names)), 2):
        pairs = [(case.arguments[first], case.arguments[second]) for case in cases if len(case.arguments) > second]
        if len(pairs) < len(cases) or not all(isinstance(one, Tensor) for pair in pairs for one in pair):
            continue
        if _gives(solution, cases, results, (first, second), errors):
            return Relation(
                f"Your result is the right one with `{names[first]}` and `{names[second]}` exchanged.",
                "At each place where your code uses one of the two: which of them belongs there?",
            )
    return None


def _gives(
    solution: Callable[..., Any],
    cases: Sequence[Case],
    results: Sequence[Any],
    pair: tuple[int, int],
    errors: tuple[type[Exception], ...],
) -> bool:
    for case, result in zip(cases, results, strict=False):
        arguments = list(built(case.arguments))
        first, second = pair
        arguments[first], arguments[second] = arguments[second], arguments[first]
        try:
            if not equal(result, solution(*arguments)):
                return False
        except errors:
            return False
    return True
