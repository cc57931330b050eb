"""Recognise steps that return a list of what they found, in which each number shifts all later ones."""

from __future__ import annotations

import torch

from course_lib.recorder import Step

from .selection import WITHOUT_ZEROS
from .shown_tensor import ShownTensor

ORDERS = ("argsort", "sort")
THROUGH_MASK = ("getitem", "masked_select", "index")


def decides_order(step: Step, tensor: ShownTensor) -> bool:
    """Return whether a number of a tensor that a step reads may move others within what the step lists.

    So do the condition of `nonzero`, the numbers of which `argsort` gives the order, and the mask in `x[mask]`. Code
    that puts each back in its own place, as experts do that write the rows they were given, cancels such moves.
    """
    if step.op in THROUGH_MASK:
        return tensor.dtype == torch.bool and any(other.dtype == torch.bool for other in step.call.tensors[1:])
    if step.op in ORDERS:
        return step.dtype == torch.int64 and (step.part is None or step.part[0] == 1)
    return step.op in WITHOUT_ZEROS and len(step.call.args) + len(step.call.kwargs.keys() - {"as_tuple", "out"}) == 1
