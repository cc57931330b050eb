"""Run a recorded call again on other tensors of the same shapes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.recorder import Step
from course_lib.tracing import map_instances, tensors_in

from .shown_tensor import ShownTensor

MOST_PAIRS = 2**25  # (number of a result, number of an input)
Table = Tensor | None  # (cell of a result, element of an input) as booleans; None: each cell may depend on all


def call_again(step: Step, instead: Sequence[Tensor]) -> Tensor:
    """Run the step's call on replacements for its tensors, and return the result.

    What the call wrote to the tensor `out` is returned as new memory: it reads nothing of that tensor.
    """
    by_id = {id(tensor): other for tensor, other in zip(step.call.tensors, instead, strict=True)}
    args, kwargs = map_instances(
        Tensor, lambda tensor: by_id.get(id(tensor), tensor), (step.call.args, step.call.kwargs)
    )
    kwargs.pop("out", None)
    output: Any = step.call.func(*args, **kwargs)
    results = [args[0]] if output is None else list(tensors_in(output))  # x[0] = y returns nothing
    result = results[step.part[0] if step.part else 0]
    if tuple(result.shape) != step.shape:
        raise ValueError("the call gave another shape")
    return result


def cells_by_element(result: ShownTensor, source: ShownTensor, *, filled: bool = False) -> Tensor:
    """Return booleans for (cell of the result, element of an input)."""
    if len(result.cells) * max(source.numel, 1) > MOST_PAIRS:
        raise ValueError("too many pairs")
    return torch.full((len(result.cells), source.numel), filled)
