"""Compare the gradients that an answer's function sends back with those of the solution."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .answer import Answer, Backward
from .answering import call_backward, floating_tensors
from .copies import copied
from .input_generator import InputGenerator

LEAVING = (
    "What leaves the graph: `.detach()`, `.item()`, `.tolist()`, NumPy, `torch.tensor(...)` and `nn.Parameter(...)`."
)
LEAVES = (
    "Does a part of the result leave the graph: `.detach()`, `.data`, `.item()`, `torch.tensor(...)`, "
    "`nn.Parameter(...)`, `no_grad()`?"
)
TOLERANCE = 1e-3  # relative to the largest element, so that a gradient in float32 passes


class GradientFault(NamedTuple):
    """What is wrong with a gradient, in one sentence; `wrong` is False if the answer's numbers may still pass."""

    sentence: str
    wrong: bool


def gradient_faults(
    solution: Callable[..., Any],
    answer: Answer,
    calls: Sequence[Mapping[str, Any]],
    reached: Sequence[str],
    rng: InputGenerator,
) -> Iterator[GradientFault | None]:
    """Run a backward pass of each call through the answer and the solution; yield None if both gradients are the same.

    An answer through which PyTorch can't send a gradient, because it changes in place what is needed later or goes
    through NumPy, fails loudly in training. One that leaves the graph silently is wrong.

    Args:
        solution: The right function.
        answer: The learner's function, whose results are right.
        calls: Name -> value, of each call.
        reached: The names of the arguments that a gradient must reach.
        rng: Where the gradient of the result comes from.

    Raises:
        LearnerError: If the answer takes too long.
    """
    asked = []
    for arguments in calls:
        values = tuple(arguments.values())
        parts = floating_tensors(solution(*copied(values)))
        asked.append((values, [rng.normal(*part.shape) for part in parts]))
    for seed, (backward, (values, cotangents)) in enumerate(zip(answer.backwards(asked), asked, strict=True)):
        expected = call_backward(solution, copied(values), cotangents, seed)["gradients"]
        yield _fault(backward, expected, calls[seed], reached)


def _fault(
    backward: Backward, expected: Sequence[Tensor | None], arguments: Mapping[str, Any], reached: Sequence[str]
) -> GradientFault | None:
    owners = [name for name, value in arguments.items() for _ in floating_tensors(value)]
    if backward.failed or len(backward.gradients) != len(owners):
        reason = shorten(backward.failed.split(". ")[0], 300, placeholder="").rstrip(".:, ") or "no reason was given"
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
