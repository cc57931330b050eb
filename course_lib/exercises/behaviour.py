"""Find by further calls what a wrong answer does not read, and whether it draws random numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from course_lib.tracing import map_instances, tensors_in

from .answer import Answer
from .copies import built
from .differences import equal
from .exercise import Case
from .learner_error import LearnerError
from .relations import Relation

OTHER_SEED = 1000003


def behaviour(answer: Answer, solution: Callable[..., Any], case: Case) -> Relation | None:
    """Return what further calls of a wrong answer show; None if there is nothing to say.

    Args:
        answer: The learner's answer, whose result is wrong.
        solution: The right function.
        case: The call.
    """
    try:
        first, again = (answer.call(case.arguments, seed).result for seed in (0, OTHER_SEED))
        if not equal(first, again):
            return Relation(
                "Two calls with the same arguments gave two results.",
                "Which line draws random numbers, or makes a layer, whose weights are random?",
            )
        return _unread(answer, solution, case, first)
    except (LearnerError, TypeError, RuntimeError):  # of a result that can't be compared, or by another input
        return None


def _unread(answer: Answer, solution: Callable[..., Any], case: Case, first: Any) -> Relation | None:
    """Name the arguments on which the right result depends and the learner's doesn't, if theirs depends on another."""
    unread, read = [], False
    for at, name in enumerate(list(inspect.signature(solution).parameters)[: len(case.arguments)]):
        if not any(one.is_floating_point() and one.numel() for one in tensors_in(case.arguments[at])):
            continue
        changed = list(case.arguments)
        changed[at] = map_instances(Tensor, _changed, changed[at])
        if equal(solution(*built(case.arguments)), solution(*built(tuple(changed)))):
            continue
        is_unread = equal(first, answer.call(changed, 0).result)
        unread += [f"`{name}`"] if is_unread else []
        read = read or not is_unread
    if not unread or not read:
        return None
    names = " and ".join(unread)
    return Relation(
        f"Your result does not depend on {names}: with other elements in {'them' if len(unread) > 1 else 'it'}, it "
        "stays as it is.",
        f"In which step does the task need {names}?",
    )


def _changed(tensor: Tensor) -> Tensor:
    return tensor.flip(0) * 0.75 + 0.125 if tensor.is_floating_point() else tensor
