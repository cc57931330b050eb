"""Name the axes of each tensor: batch, head, token, feature, query and key, as far as the recorded calls tell them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import torch
from torch import Tensor

from course_lib.recorder import TO_TYPE, Step
from course_lib.tracing import map_instances, tensors_in

from .selected import axis_of

Names = tuple[str, ...]
INPUT = ("batch", "token", "feature")
ADDED_PRODUCTS = ("addmm", "baddbmm", "addbmm")
PRODUCTS = ("matmul", "bmm", "mm", "rmatmul")
RESHAPES = ("view", "reshape", "flatten", "unflatten", "expand", "view_as", "reshape_as")
COLLECTING = ("nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "bincount", "histc")
RANKING = ("sort", "topk", "argsort")
# One per axis, none a product of others and sizes.
STRIDES: tuple[int, ...] = (1000003, 2000003, 4000037, 8000009, 16000057, 32000011, 64000031, 128000003)


def names_of_input(shape: Sequence[int], op: str) -> Names:
    """Name the axes of a tensor that the recorded code was called with, given the operation that reads it first."""
    if op == "embedding" and len(shape) == 2:
        return ("batch", "token")
    known = {1: ("token",), 2: ("token", "feature"), 3: INPUT, 4: ("batch", "head", "token", "feature")}
    return known.get(len(shape), ("",) * len(shape))


def names_of_result(step: Step, inputs: Sequence[tuple[tuple[int, ...], Names]]) -> Names:
    """Name the axes of a step's result, given shape and names of each input."""
    if step.op in COLLECTING:
        return ("",) * len(step.shape)
    if step.op == "setitem":  # the value's axes name none of the tensor that it is written to
        return inputs[0][1]
    names = _names_of_result(step, inputs)
    if step.op in RANKING and names and isinstance(axis := axis_of(step), int):
        axis %= len(names)  # along this axis stand ranks, no longer tokens or features
        return (*names[:axis], "", *names[axis + 1 :])
    return names


def _names_of_result(step: Step, inputs: Sequence[tuple[tuple[int, ...], Names]]) -> Names:
    unknown = ("",) * len(step.shape)
    if not inputs or step.op == "embedding":
        return (*inputs[0][1], "feature")[-len(step.shape) :] if inputs else unknown
    if (step.op in PRODUCTS and len(inputs) == 2) or (step.op in ADDED_PRODUCTS and len(inputs) == 3):
        return _of_product(step, *inputs[-2:])
    if step.op == "einsum":
        return _of_einsum(step, [names for _, names in inputs])
    inputs = inputs[:1] if step.op in TO_TYPE else inputs
    shape, names = max(inputs, key=lambda one: sum(map(bool, one[1])))
    if step.op == "linear" and len(names) == len(step.shape):
        return (*names[:-1], "feature")
    if step.effect == "view" and step.op not in RESHAPES and len(inputs) == 1:
        followed = _followed(step, shape, names)
        if followed is not None:
            return followed
    if len(step.shape) == len(shape) and all(a == b or 1 in (a, b) for a, b in zip(shape, step.shape, strict=True)):
        return names
    if math.prod(shape) == math.prod(step.shape) and step.effect in ("view", "copy"):
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


def _of_einsum(step: Step, inputs: Sequence[Names]) -> Names:
    """Name each letter of the result as the input that has it does; two axes of tokens are queries and keys."""
    equation = step.call.args[0] if step.call.args else None
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return ("",) * len(step.shape)
    left, right = equation.replace(" ", "").split("->")
    known: dict[str, str] = {}
    for letters, names in zip(left.split(","), inputs, strict=False):
        known |= {letter: name for letter, name in zip(letters, names, strict=False) if name and letter not in known}
    names = [known.get(letter, "") for letter in right]
    if names.count("token") == 2:
        first, second = (at for at, name in enumerate(names) if name == "token")
        names[first], names[second] = "query", "key"
    elif "key" not in names and "feature" in names:  # weights times values: a context per token
        names = ["token" if name == "query" else name for name in names]
    return tuple(names)


def _followed(step: Step, shape: Sequence[int], names: Names) -> Names | None:
    """Follow each axis through a call that only changes strides, by strides that name it; None if that fails."""
    known = dict(zip(STRIDES, names, strict=False))
    marker = torch.empty_strided(tuple(shape), STRIDES[: len(shape)], device="meta")
    first = step.call.tensors[0]
    args, kwargs = map_instances(
        Tensor, lambda tensor: marker if tensor is first else tensor, (step.call.args, step.call.kwargs)
    )
    try:
        result = next(islice(tensors_in(step.call.func(*args, **kwargs)), step.part[0] if step.part else 0, None))
    except (RuntimeError, TypeError, IndexError, NotImplementedError, StopIteration):
        return None
    return tuple(known.get(stride, "") for stride in result.stride()) if result.shape == step.shape else None


def _regrouped(shape: Sequence[int], names: Names, to: Sequence[int]) -> Names:
    """Name the axes after a view: a split feature gives head and feature, joined axes keep all their names."""
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
    """Name the axes that some others were regrouped to; joined axes are named after all of them, as "batch and token".

    An axis is called mixed if it runs on from the features of one token to the next token, but in other pieces.
    """
    if len(names) == count == 1:
        return names
    if len(names) == 1 and names[0] == "feature":
        return [*[""] * (count - 2), "head", "feature"][-count:]
    if count == 1 and names == ["head", "feature"]:
        return ["feature"]
    if count == 1 and all(names) and "mixed" not in names:
        single = [name for joined in names for name in joined.split(" and ")]
        if single[-2:] == ["head", "feature"]:
            del single[-2]
        return [" and ".join(single) if len(set(single)) == len(single) else ""]
    known = {name for joined in names for name in joined.split(" and ")}
    return ["mixed" if "mixed" in known or {"token", "feature"} <= known else ""] * count
