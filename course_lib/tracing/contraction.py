"""Find which element was multiplied by which in matrix products and other sums of products."""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from .graph import Operation, Trace, Value

# name -> indices of the two factors among the arguments
FACTORS = {
    "mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addmv": (1, 2),
}  # fmt: skip


@dataclass(eq=False)
class Contraction:
    """out[e] = sum over c of left[e, c] * right[e, c].

    Attributes:
        operation: the operation that returned the result.
        factors: the operation that multiplies, and the indices of the two arguments that it multiplies.
        left, right: the values that are multiplied.
        lefts, rights: (e, c), the flat index of the element of left and of right; e runs over the result's elements.
    """

    operation: Operation
    factors: tuple[Operation, int, int]
    left: Value
    right: Value
    lefts: Tensor
    rights: Tensor

    @property
    def out(self) -> Value:
        """The result."""
        return self.operation.outputs[0]

    @property
    def size(self) -> int:
        """The number of terms in a sum."""
        return self.lefts.shape[1]

    def sides(self) -> tuple[tuple[Value, Tensor], tuple[Value, Tensor]]:
        """Return both factors, each with its flat indices."""
        return (self.left, self.lefts), (self.right, self.rights)


def contractions(trace: Trace) -> list[Contraction]:
    """Return every sum of products in a trace, in order."""
    products = []
    for operation in trace.operations:
        if operation.name in FACTORS:
            contraction = _product(operation)
        elif operation.name == "convolution":
            contraction = _pointwise(operation)
        else:
            contraction = _sum_of_products(trace, operation)
        if contraction is not None:
            products.append(contraction)
    return products


def outer_products(trace: Trace) -> list[Contraction]:
    """Return the elementwise products of two tensors, as sums of one term, which a loop over keys adds up."""
    products = []
    for operation in trace.operations:
        if operation.name in ("mul", "mul_") and len(operation.inputs) == 2:
            products.append(_summed(operation, operation, *operation.inputs, []))
    return products


def product_of(trace: Trace, value: Value) -> Operation | None:
    """Return the elementwise product of two tensors that a value is, or is a multiple of; None if it is none."""
    while value.made_by is not None:
        operation = trace.operations[value.made_by]
        factors = [factor for factor in operation.args[:2] if isinstance(factor, Value)]
        if operation.name not in ("mul", "div") or not factors:
            return None
        if len(factors) == 2:
            return operation if operation.name == "mul" else None
        value = factors[0]
    return None


def _indices(value: Value) -> Tensor:
    return torch.arange(value.tensor.numel()).view(value.tensor.shape)


def _product(operation: Operation) -> Contraction | None:
    indices = FACTORS[operation.name]
    left, right = (operation.args[index] for index in indices)
    if not isinstance(left, Value) or not isinstance(right, Value):
        return None
    a, b = _indices(left), _indices(right)
    a = a if a.dim() > 1 else a[None]  # dot: one row
    b = b.mT if b.dim() > 1 else b[None]  # mv, dot: one column
    *many, rows, size = a.shape
    if not size:  # a sum of no terms, such as over the keys of an empty cache
        return None
    shape = (*many, rows, b.shape[-2], size)
    lefts = a[..., :, None, :].expand(shape).reshape(-1, size)
    rights = b[..., None, :, :].expand(shape).reshape(-1, size)
    return Contraction(operation, (operation, *indices), left, right, lefts, rights)


def _pointwise(operation: Operation) -> Contraction | None:
    """Return a convolution with a kernel of one token, which is a Linear in a different layout."""
    x, weight = operation.args[:2]
    if any(size != 1 for size in weight.tensor.shape[2:]) or operation.args[8] != 1:
        return None
    tokens = _indices(x).movedim(1, -1)  # (batch, token, d_in)
    columns = _indices(weight).flatten(1)  # (d_out, d_in)
    shape = (*tokens.shape[:-1], *columns.shape)
    if (*shape[:1], columns.shape[0], *shape[1:-2]) != tuple(operation.outputs[0].tensor.shape):
        return None  # strides or padding
    lefts = tokens[..., None, :].expand(shape).movedim(-2, 1).reshape(-1, shape[-1])
    rights = columns.expand(shape).movedim(-2, 1).reshape(-1, shape[-1])
    return Contraction(operation, (operation, 0, 1), x, weight, lefts, rights)


def _sum_of_products(trace: Trace, operation: Operation) -> Contraction | None:
    if operation.name != "sum" or not isinstance(operation.args[0], Value):
        return None
    product = product_of(trace, operation.args[0])
    if product is None:
        return None
    left, right = product.args[:2]
    num_axes = product.outputs[0].tensor.dim()
    axes = operation.args[1] if len(operation.args) > 1 and operation.args[1] else range(num_axes)
    return _summed(operation, product, left, right, sorted(axis % num_axes for axis in axes))


def _summed(operation: Operation, product: Operation, left: Value, right: Value, axes: list[int]) -> Contraction:
    shape = product.outputs[0].tensor.shape
    size = prod(shape[axis] for axis in axes)
    last = list(range(len(shape) - len(axes), len(shape)))
    lefts, rights = (_indices(v).expand(shape).movedim(axes, last).reshape(-1, size) for v in (left, right))
    return Contraction(operation, (product, 0, 1), left, right, lefts, rights)
