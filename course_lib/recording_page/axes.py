"""Name the axes of each tensor: batch, head, token, feature, query and key, as far as the recorded calls tell them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from course_lib.recorder import Step

Names = tuple[str, ...]
INPUT = ("batch", "token", "feature")
PRODUCTS = ("matmul", "bmm", "mm", "rmatmul")
SAME_SHAPE = ("dropout", "softmax", "contiguous", "clone", "where", "masked_fill")


def names_of_input(shape: Sequence[int]) -> Names:
    """Name the axes of a tensor that the recorded code was called with."""
    known = {1: ("token",), 2: ("token", "feature"), 3: INPUT, 4: ("batch", "head", "token", "feature")}
    return known.get(len(shape), ("",) * len(shape))


def names_of_result(step: Step, inputs: Sequence[tuple[tuple[int, ...], Names]]) -> Names:
    """Name the axes of a step's result, given shape and names of each input."""
    unknown = ("",) * len(step.shape)
    if not inputs:
        return unknown
    if step.op in PRODUCTS and len(inputs) == 2:
        return _of_product(step, *inputs)
    shape, names = max(inputs, key=lambda one: sum(map(bool, one[1])))
    if step.op in ("linear", "embedding") and len(names) == len(step.shape):
        return (*names[:-1], "feature")
    if step.op in ("transpose", "swapaxes", "permute", "movedim", "T", "mT", "t"):
        return _reordered(step, shape, names)
    if len(step.shape) == len(shape) and all(a == b or 1 in (a, b) for a, b in zip(shape, step.shape, strict=True)):
        return names
    if math.prod(shape) == math.prod(step.shape):
        return _regrouped(shape, names, step.shape)
    return names if len(names) == len(step.shape) else unknown


def _of_product(step: Step, left: tuple, right: tuple) -> Names:
    (shape, one), (_, two) = left, right
    if len(shape) != len(step.shape) or len(one) < 2 or len(two) < 2:
        return ("",) * len(step.shape)
    row, column = one[-2], two[-1]
    if row == column == "token":
        row, column = "query", "key"
    elif row == "query" and column == "feature":  # weights times values: a context per token
        row = "token"
    return (*one[:-2], row, column)


def _reordered(step: Step, shape: Sequence[int], names: Names) -> Names:
    """Exchange names as the call exchanges axes, seen by running it on a tensor of that shape."""
    import torch

    from course_lib.tracing import map_instances

    if len(shape) != len(step.shape):
        return ("",) * len(step.shape)
    marker = torch.empty(tuple(range(2, 2 + len(shape))), device="meta")
    args, kwargs = map_instances(torch.Tensor, lambda _: marker, (step.call.args, step.call.kwargs))
    result = step.call.func(*args, **kwargs)
    return tuple(names[size - 2] for size in result.shape)


def _regrouped(shape: Sequence[int], names: Names, to: Sequence[int]) -> Names:
    """Name the axes after a view: a split feature gives head and feature, joined axes keep the last one's name."""
    result: list[str] = []
    i = j = 0
    while j < len(to):
        before, after = [i], [j]
        i, j = i + 1, j + 1
        while math.prod(shape[k] for k in before if k < len(shape)) != math.prod(to[k] for k in after):
            if j < len(to) and math.prod(to[k] for k in after) < math.prod(shape[k] for k in before if k < len(shape)):
                after.append(j)
                j += 1
            elif i < len(shape):
                before.append(i)
                i += 1
            else:
                return ("",) * len(to)
        result += _of_group([names[k] for k in before if k < len(names)], len(after))
    return tuple(result[: len(to)])


def _of_group(names: list[str], count: int) -> list[str]:
    if len(names) == count:
        return names
    if len(names) == 1 and names[0] == "feature":
        return [*[""] * (count - 2), "head", "feature"][-count:]
    if count == 1 and names == ["head", "feature"]:
        return ["feature"]
    return ["mixed" if len(set(names)) > 1 else ""] * count
