"""Follow numbers through softmax: each is computed from all numbers of its row, a hidden one from its own only."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import Step

from .elementwise import HUGE
from .recorded_call import Table, cells_by_element
from .shown_tensor import ShownTensor

OPS = ("softmax", "log_softmax")
FAR = HUGE / 2  # a mask of -HUGE leaves at least that between a hidden score and a visible one


def softmax_sources(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Table] | None:
    """Return the sources of a softmax, or None for other operations.

    The weight of a hidden score stays 0 whatever the other numbers are. The hidden score counts for the rest of the
    row, because it decides how many share the sum.
    """
    if step.op not in OPS or len(inputs) != 1 or not result.shape:
        return None
    number = torch.arange(result.numel).view(result.shape)
    rows = number.movedim(_axis(step), -1)
    row_of = torch.empty(result.numel, dtype=torch.long)
    row_of[rows.flatten()] = torch.arange(result.numel) // max(rows.shape[-1], 1)
    table = cells_by_element(result, inputs[0])
    table |= row_of[result.cells][:, None] == row_of[None, :]
    if not inputs[0].is_overwritten_after(step.number):
        table[_hidden(step).flatten()[result.cells]] = False
    table[torch.arange(len(result.cells)), result.cells] = True
    return [table]


def is_lone(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> Tensor | None:
    """Return for each cell whether its score is the only visible one of its row; None if no cell's is."""
    if step.op not in OPS or len(inputs) != 1 or not result.shape or inputs[0].is_overwritten_after(step.number):
        return None
    visible = ~_hidden(step)
    lone = (visible & (visible.sum(_axis(step), keepdim=True) == 1)).flatten()[result.cells]
    return lone if bool(lone.any()) else None


def _hidden(step: Step) -> Tensor:
    """Return which scores lie as far below the largest of their row as masks put them."""
    scores = step.call.tensors[0].detach().cpu().double()
    largest = scores.amax(_axis(step), keepdim=True)
    return (scores <= largest - FAR) & largest.isfinite()


def _axis(step: Step) -> int:
    dim = step.call.kwargs.get("dim", step.call.args[1] if len(step.call.args) > 1 else -1)
    return dim if isinstance(dim, int) else -1
