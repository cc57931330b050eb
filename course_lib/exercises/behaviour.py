"""Find by further calls what a wrong answer does not read, and whether it draws random numbers."""

import inspect
from collections.abc import Callable, Iterator
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
    for name, changed in _changes(solution, case):
        if equal(solution(*built(case.arguments)), solution(*built(changed))):
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


def _changes(solution: Callable[..., Any], case: Case) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the name of each argument and of each entry of a list, and the arguments with another value for it."""
    for at, (name, value) in enumerate(zip(inspect.signature(solution).parameters, case.arguments, strict=False)):
        is_list = isinstance(value, list)
        for index, one in enumerate(value if is_list else [value]):
            if any(part.is_floating_point() and part.numel() for part in tensors_in(one)):
                other = map_instances(Tensor, _changed, one)
                own = [*value[:index], other, *value[index + 1 :]] if is_list else other
                yield f"{name}[{index}]" if is_list else name, (*case.arguments[:at], own, *case.arguments[at + 1 :])


def _changed(tensor: Tensor) -> Tensor:
    return tensor.flip(0) * 0.75 + 0.125 if tensor.is_floating_point() else tensor
