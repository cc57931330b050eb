"""Compare the gradients that an answer's function sends back with those of the solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .answer import Answer
from .answering import call_backward, floating_tensors
from .copies import copied
from .input_generator import InputGenerator

LEAVES = "Does a part of the result leave the graph: `.detach()`, `.data`, `.item()`, `torch.tensor(...)`, `no_grad()`?"
TOLERANCE = 1e-3  # relative to the largest element, so that a gradient in float32 passes


class GradientFault(NamedTuple):
    """What is wrong with a gradient, in one sentence; `wrong` is False if the answer's numbers may still pass."""

    sentence: str
    wrong: bool


def gradient_fault(
    solution: Callable[..., Any],
    answer: Answer,
    arguments: Mapping[str, Any],
    reached: Sequence[str],
    seed: int,
    rng: InputGenerator,
) -> GradientFault | None:
    """Run one backward pass through the answer and through the solution; None if both give the same gradients.

    An answer through which PyTorch can't send a gradient, because it changes in place what is needed later or goes
    through NumPy, fails loudly in training. One that leaves the graph silently is wrong.

    Args:
        solution: The right function.
        answer: The learner's function, whose results are right.
        arguments: Name -> value, of one call.
        reached: The names of the arguments that a gradient must reach.
        seed: Of PyTorch's random stream.
        rng: Where the gradient of the result comes from.

    Raises:
        LearnerError: If the answer takes too long.
    """
    values = list(arguments.values())
    parts = floating_tensors(solution(*copied(tuple(values))))
    cotangents = [rng.normal(*part.shape) for part in parts]
    expected = call_backward(solution, copied(tuple(values)), cotangents, seed)["gradients"]
    owners = [name for name, value in arguments.items() for _ in floating_tensors(value)]
    backward = answer.backward(values, cotangents, seed)
    if backward.failed or len(backward.gradients) != len(owners):
        reason = backward.failed.split(". ")[0][:200].rstrip(".:, ") or "no reason was given"
        return GradientFault(f"Its numbers are right, but it can't be trained as it is: {reason}.", False)
    for name, own, right in zip(owners, backward.gradients, expected, strict=True):
        if name not in reached or right is None or not bool(right.any() and right.isfinite().all()):
            continue
        if own is None or own.shape != right.shape or not bool(own.any()):
            return GradientFault(
                f"Your numbers are right, but no gradient reaches `{name}`: nothing in front of it could be trained.",
                True,
            )
        if not bool(own.isfinite().all()):
            return GradientFault(f"Its numbers are right, but the gradient of `{name}` is nan: training fails.", False)
        scale = float(right.abs().max())
        if not torch.allclose(own.to(right.dtype), right, TOLERANCE, TOLERANCE * scale):
            return GradientFault(
                f"Your numbers are right, but the gradient of `{name}` is not that of the formula.", True
            )
    return None
