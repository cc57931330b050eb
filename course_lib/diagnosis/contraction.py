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
        made = _product(operation) if operation.name in FACTORS else _sum_of_products(trace, operation)
        if made is not None:
            found.append(made)
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
