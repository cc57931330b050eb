"""Products with a sum, in whatever operation they hide: which number met which."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from .trace import Operation, Trace, Value

# name -> places of the two factors among the arguments
FACTORS = {
    "mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addmv": (1, 2),
}  # fmt: skip


@dataclass(eq=False)
class Contraction:
    """out[e] = sum over c of left[e, c] * right[e, c].

    Attributes:
        operation: that gave the result.
        factors: operation and places of the arguments that are multiplied.
        left, right: the values that are multiplied.
        lefts, rights: (e, c), which number of left and of right; e counts the numbers of the result.
    """

    operation: Operation
    factors: tuple[Operation, int, int]
    left: Value
    right: Value
    lefts: Tensor
    rights: Tensor

    @property
    def out(self) -> Value:
        return self.operation.outputs[0]

    @property
    def size(self) -> int:
        """How many products a sum has."""
        return self.lefts.shape[1]

    def sides(self) -> tuple[tuple[Value, Tensor], tuple[Value, Tensor]]:
        return (self.left, self.lefts), (self.right, self.rights)


def contractions(trace: Trace) -> list[Contraction]:
    """Every product with a sum of a trace, in order."""
    found = []
    for operation in trace.operations:
        if operation.name in FACTORS:
            made = _product(operation)
        elif operation.name == "convolution":
            made = _pointwise(operation)
        else:
            made = _sum_of_products(trace, operation)
        if made is not None:
            found.append(made)
    return found


def outer_products(trace: Trace) -> list[Contraction]:
    """Plain products of two tensors, as sums of one term: what a loop over keys adds up one by one."""
    found = []
    for operation in trace.operations:
        if operation.name not in ("mul", "mul_") or len(operation.inputs) != 2:
            continue
        left, right = operation.inputs
        shape = operation.outputs[0].tensor.shape
        lefts, rights = (_numbers(value).expand(shape).reshape(-1, 1) for value in (left, right))
        found.append(Contraction(operation, (operation, 0, 1), left, right, lefts, rights))
    return found


def _numbers(value: Value) -> Tensor:
    return torch.arange(value.tensor.numel()).view(value.tensor.shape)


def _product(operation: Operation) -> Contraction | None:
    places = FACTORS[operation.name]
    left, right = (operation.args[place] for place in places)
    if not isinstance(left, Value) or not isinstance(right, Value):
        return None
    a, b = _numbers(left), _numbers(right)
    a = a if a.dim() > 1 else a[None]  # dot: one row
    b = b if b.dim() > 1 else b[:, None]  # mv, dot: one column
    b = b.mT
    *many, rows, size = a.shape
    shape = (*many, rows, b.shape[-2], size)
    lefts = a[..., :, None, :].expand(shape).reshape(-1, size)
    rights = b[..., None, :, :].expand(shape).reshape(-1, size)
    return Contraction(operation, (operation, *places), left, right, lefts, rights)


def _pointwise(operation: Operation) -> Contraction | None:
    """A convolution that looks at one token at a time: a Linear in another layout."""
    x, weight = operation.args[:2]
    if any(size != 1 for size in weight.tensor.shape[2:]) or operation.args[8] != 1:
        return None
    tokens = _numbers(x).movedim(1, -1)  # (batch, token, d_in)
    columns = _numbers(weight).flatten(1)  # (d_out, d_in)
    shape = (*tokens.shape[:-1], *columns.shape)
    if (*shape[:1], columns.shape[0], *shape[1:-2]) != tuple(operation.outputs[0].tensor.shape):
        return None  # strides or padding
    lefts = tokens[..., None, :].expand(shape).movedim(-2, 1).reshape(-1, shape[-1])
    rights = columns.expand(shape).movedim(-2, 1).reshape(-1, shape[-1])
    return Contraction(operation, (operation, 0, 1), x, weight, lefts, rights)


def _sum_of_products(trace: Trace, operation: Operation) -> Contraction | None:
    if operation.name != "sum" or not isinstance(operation.args[0], Value):
        return None
    made_by = operation.args[0].made_by
    if made_by is None or trace.operations[made_by].name != "mul":
        return None
    product = trace.operations[made_by]
    left, right = product.args[:2]
    if not isinstance(left, Value) or not isinstance(right, Value):
        return None
    shape = product.outputs[0].tensor.shape
    axes = operation.args[1] if len(operation.args) > 1 and operation.args[1] else range(len(shape))
    axes = sorted(axis % len(shape) for axis in axes)
    size = prod(shape[axis] for axis in axes)
    last = list(range(len(shape) - len(axes), len(shape)))
    lefts, rights = (_numbers(v).expand(shape).movedim(axes, last).reshape(-1, size) for v in (left, right))
    return Contraction(operation, (product, 0, 1), left, right, lefts, rights)
