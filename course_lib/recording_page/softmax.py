"""Follow numbers through softmax: each is computed from all numbers of its row, a weight of 0 from its own only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import Step

from .calling import cells_by_element
from .shown import ShownTensor


def softmax(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Tensor | None] | None:
    """Return the sources of a softmax, or None if the operation is another one.

    A weight that is exactly 0, as that of a hidden score is, stays 0 whatever the other numbers are. The hidden score
    counts for the rest of the row, because it decides how many share the sum.
    """
    if step.op not in ("softmax", "log_softmax") or len(inputs) != 1 or not result.shape:
        return None
    given = {"dim": step.call.kwargs.get("dim", step.call.args[1] if len(step.call.args) > 1 else -1)}
    axis = given["dim"] if isinstance(given["dim"], int) else -1
    weights = step.call.results[0].detach().cpu()
    hidden = (weights == 0) if step.op == "softmax" else weights.isneginf()
    number = torch.arange(result.numel).view(result.shape)
    rows = number.movedim(axis, -1)
    row_of = torch.empty(result.numel, dtype=torch.long)
    row_of[rows.flatten()] = torch.arange(result.numel) // max(rows.shape[-1], 1)
    found = cells_by_element(result, inputs[0])
    found |= row_of[result.cells][:, None] == row_of[None, :]
    found[hidden.flatten()[result.cells]] = False
    found[torch.arange(len(result.cells)), result.cells] = True
    return [found]
