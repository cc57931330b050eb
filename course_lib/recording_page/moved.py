"""Follow numbers that a call only moves, such as view, transpose, cat and indexing: labels go through the call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import COPIES, Step

from .calling import call_again, cells_by_element
from .shown import ShownTensor

FIRST_LABEL = 2.0**40  # larger than any number that a call may put between the labels, as padding does
WRITES = ("setitem", "copy_", "index_copy_", "scatter_", "slice_scatter", "index_put_")
JOINED = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack")


def moved(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Tensor | None] | None:
    """Return the sources of moved numbers, or None if the call computes new ones."""
    if step.effect not in ("view", "copy") and step.op not in WRITES and step.op not in COPIES:
        return None
    everything = step.op in (*WRITES, *JOINED)
    data = [i for i, one in enumerate(inputs) if everything or i == 0 or one.dtype.is_floating_point]
    if step.op == "embedding":  # the words' numbers choose rows of the weights
        data = [i for i, one in enumerate(inputs) if one.dtype.is_floating_point]
    if step.op == "getitem":
        data = [0]
    if step.op in WRITES and step.op != "copy_":  # between the first and the last stand the places
        data = sorted({0, len(inputs) - 1})
    labels, first = [], FIRST_LABEL
    begins: dict[int, float] = {}
    for i, (one, tensor) in enumerate(zip(inputs, step.call.tensors, strict=True)):
        if i not in data:
            labels.append(tensor)
            continue
        begins[i], numbers = first, torch.arange(one.numel, dtype=torch.float64) + first
        first += one.numel
        labels.append(_in_layout(numbers.view(one.shape), one))
    came = call_again(step, labels).flatten()[result.cells]
    return [_of_input(came, begins.get(i), result, one) for i, one in enumerate(inputs)]


def _in_layout(labels: Tensor, one: ShownTensor) -> Tensor:
    """Give labels the strides of the tensor, which decide whether view works."""
    if any(stride == 0 for stride, size in zip(one.stride, one.shape, strict=True) if size > 1):
        return labels
    return torch.empty_strided(one.shape, one.stride, dtype=labels.dtype).copy_(labels)


def _of_input(came: Tensor, begin: float | None, result: ShownTensor, one: ShownTensor) -> Tensor:
    found = cells_by_element(result, one)
    if begin is None:  # places, such as the indices in x[places]; words say so
        return found
    inside = (came >= begin) & (came < begin + one.numel)
    cells = inside.nonzero().flatten()
    found[cells, (came[cells] - begin).long()] = True
    return found
