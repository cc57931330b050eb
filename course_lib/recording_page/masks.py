"""Which truth value of a mask hides: as its readers use it, not as a convention has it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import Step

from .elementwise import HUGE
from .shown_tensor import ShownTensor

NEGATIONS = ("logical_not", "bitwise_not", "invert")
KEEPS = {
    *("view", "reshape", "expand", "expand_as", "unsqueeze", "squeeze", "getitem", "transpose", "permute", "t", "T"),
    *("mT", "repeat", "repeat_interleave", "contiguous", "clone", "to", "bool", "detach", "broadcast_to", "chunk"),
    *("split", "narrow", "flatten", "unflatten", "tril", "triu", "and", "iand", "or", "ior", "logical_and"),
    *("logical_or", "bitwise_and", "bitwise_or", "cat", "stack"),
}


def note_what_hides(steps: Sequence[tuple[Step, ShownTensor, Sequence[ShownTensor]]]) -> None:
    """Note on each mask whether its True hides: `masked_fill` replaces there, and `where` where it takes a constant.

    Args:
        steps: each step with what it made and what it read, in order.
    """
    hides: dict[str, bool] = {}  # key of a tensor -> what its last reader says
    for step, result, inputs in reversed(steps):
        for key, true_hides in _readings(step, result, inputs, hides):
            hides[key] = true_hides
    for tensor in (tensor for _, result, inputs in steps for tensor in (result, *inputs)):
        tensor.true_hides = hides.get(tensor.key, False)


def adds_to_hide(tensor: ShownTensor) -> bool:
    """Return whether some of a tensor's numbers hide what they are added to."""
    values = tensor.values
    return values is not None and values.dtype.is_floating_point and bool((values <= -HUGE).any())


def _readings(
    step: Step, result: ShownTensor, inputs: Sequence[ShownTensor], hides: dict[str, bool]
) -> list[tuple[str, bool]]:
    op = step.op.removesuffix("_")
    masks = [tensor for tensor in inputs if tensor.dtype == torch.bool]
    if op == "masked_fill":
        return [(masks[-1].key, True)] if masks else []
    if op == "where" and step.call.func is torch.where and len(step.call.args) == 3 and masks:
        return [(masks[0].key, _is_constant(step.call.args[1]) and not _is_constant(step.call.args[2]))]
    if result.dtype != torch.bool or result.key not in hides:
        return []
    if op in NEGATIONS:
        return [(mask.key, not hides[result.key]) for mask in masks]
    return [(mask.key, hides[result.key]) for mask in masks] if op in KEEPS else []


def _is_constant(value: object) -> bool:
    return not isinstance(value, Tensor) or value.numel() == 1
