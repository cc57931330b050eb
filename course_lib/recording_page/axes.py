"""Name the axes of each tensor: batch, head, token, feature, query and key, as far as the recorded calls tell them."""

import math
from collections.abc import Sequence
from itertools import islice

import torch
from torch import Tensor

from course_lib.recorder import TO_TYPE, Step
from course_lib.tracing import map_instances, tensors_in

from .elementwise import is_elementwise
from .joined_axes import Part, joined, parts_of, regrouped
from .selection import axis_of
from .shown_tensor import ShownTensor

Names = tuple[str, ...]
INPUT = ("batch", "token", "feature")
ADDED_PRODUCTS = ("addmm", "baddbmm", "addbmm")
PRODUCTS = ("matmul", "bmm", "mm", "rmatmul")
RESHAPES = ("view", "reshape", "flatten", "unflatten", "expand", "view_as", "reshape_as")
COLLECTING = ("nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "bincount", "histc")
JOINING = ("cat", "concat", "concatenate")
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
    if step.op == "setitem":
        return _of_written(*inputs[0], *inputs[-1])
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
    shape, names = max(inputs, key=lambda pair: sum(map(bool, pair[1])))
    if step.op == "linear" and len(names) == len(step.shape):
        return (*names[:-1], "feature")
    if step.effect == "view" and step.op not in RESHAPES and len(inputs) == 1:
        followed = _followed(step, shape, names)
        if followed is not None:
            return followed
    if step.op in RESHAPES and shape != step.shape and math.prod(shape) == math.prod(step.shape):
        return regrouped(shape, names, step.shape)
    if len(step.shape) == len(shape) and all(a == b or 1 in (a, b) for a, b in zip(shape, step.shape, strict=True)):
        return names
    if math.prod(shape) == math.prod(step.shape) and step.effect in ("view", "copy"):
        return regrouped(shape, names, step.shape)
    return names if len(names) == len(step.shape) else unknown


def _of_written(shape: Sequence[int], names: Names, value_shape: Sequence[int], of_value: Names) -> Names:
    """Name the axes of an unnamed tensor after the value written to it, unless two or more of their sizes differ."""
    if any(names) or len(shape) != len(value_shape) or len(shape) < 2:
        return names
    others = sum(size != other for size, other in zip(shape, value_shape, strict=True))
    return of_value if others < 2 else names


def name_operands(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> None:
    """Name the unknown axes of what was combined with a named tensor place by place or joined to it, such as a mask."""
    if not is_elementwise(step.op) and step.op not in JOINING:
        return
    for operand in inputs:
        skipped = len(result.shape) - len(operand.shape)
        if skipped < 0 or len(operand.axes) != len(operand.shape) or len(result.axes) != len(result.shape):
            continue
        ends = zip(operand.axes, operand.shape, result.axes[skipped:], result.shape[skipped:], strict=True)
        operand.axes = tuple(
            name if not known and size == whole and name not in operand.axes else known
            for known, size, name, whole in ends
        )


def _of_product(step: Step, left: tuple, right: tuple) -> Names:
    (shape, left_axes), (_, right_axes) = left, right
    if len(shape) != len(step.shape) or len(left_axes) < 2 or len(right_axes) < 2:
        return ("",) * len(step.shape)
    row, column = left_axes[-2], right_axes[-1]
    parts = parts_of(row, shape[-2])
    if column == "token" and "token" in dict(parts):
        row, column = _renamed(parts, "token", "query"), "key"
    elif column == "feature" and "query" in dict(parts):  # weights times values: a context per token
        row = _renamed(parts, "query", "token")
    return (*left_axes[:-2], row, column)


def _renamed(parts: Sequence[Part], old: str, new: str) -> str:
    return joined([(new if name == old else name, size) for name, size in parts])


def _of_einsum(step: Step, inputs: Sequence[Names]) -> Names:
    """Give each letter of the output the name that it has in an input; two token axes become query and key."""
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
    """Follow each axis through a call that only changes strides, by giving each axis a stride of its own."""
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
    if result.shape != step.shape:
        return None
    strides = result.stride()  # an axis that was put before one of size 1 has its stride, too
    return tuple("" if stride in strides[n + 1 :] else known.get(stride, "") for n, stride in enumerate(strides))
