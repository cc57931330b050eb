"""Find scores that are computed from one query and one key, but are no dot products of the two."""

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, Contraction, Operation, Value, propagate

from .dependence import Dependence
from .token_sums import pair_softmaxes

SUMS = ("add", "add_")


def additive_products(dependence: Dependence, products: list[Contraction]) -> list[Contraction]:
    """Return where a query's and a key's numbers meet in sums that scores are made from; empty without such.

    Each is written as a product: its left and right elements are the numbers of the query and of the key, and its
    result is the first value with a single number for each pair, such as the product of tanh(q + k) with a vector, or
    that of a query and a key side by side with one.
    """
    trace = dependence.run.trace
    needed = trace.ancestors([one.inputs[0] for one in pair_softmaxes(dependence)])
    sums = [one for one in dependence.run.in_order(needed) if _adds_pairs(dependence, one)]
    if sums:
        return [_of_sum(one, *_summed_after(dependence, products, one, needed)) for one in sums]
    able = (product for product in products if product.operation.number in needed)
    return [pairs for product in able if (pairs := _side_by_side(dependence, product)) is not None]


def _adds_pairs(dependence: Dependence, operation: Operation) -> bool:
    """Return whether an operation adds each token's numbers to those of each other token."""
    parts = [value for value in operation.inputs if dependence.on_input(value)]
    apart = len(parts) == 2 and all(map(dependence.keeps_tokens_apart, parts))
    return operation.name in SUMS and apart and dependence.combines_tokens(operation.outputs[0])


def _of_sum(operation: Operation, made: Operation, numbers: Tensor) -> Contraction:
    """Return a sum of two values as a product whose elements have several `numbers` of the sum each."""
    shape, (left, right) = operation.outputs[0].tensor.shape, operation.inputs[:2]
    sides = [torch.arange(v.tensor.numel()).view(v.tensor.shape).expand(shape).reshape(-1) for v in (left, right)]
    return Contraction(made, (operation, 0, 1), left, right, sides[0][numbers], sides[1][numbers])


def _summed_after(
    dependence: Dependence, products: list[Contraction], operation: Operation, needed: set[int]
) -> tuple[Operation, Tensor]:
    """Return the product that sums over the numbers of each pair, and the numbers behind each of its elements.

    That is the sum of query and key itself if it makes a single number for each pair.
    """
    out = operation.outputs[0]
    numbers = torch.arange(out.tensor.numel()).view(out.tensor.shape)
    labels = propagate(dependence.run.trace, {out.number: numbers})
    for product in products:
        for value, at in product.sides():
            behind = labels[value.number].flatten()[at]
            if product.operation.number in needed and product.size > 1 and bool((behind != UNLABELLED).all()):
                return product.operation, behind
    return operation, numbers.view(-1, 1)


def _side_by_side(dependence: Dependence, product: Contraction) -> Contraction | None:
    """Return a product of weights with the numbers of two tokens, one behind the other, as one of these two."""
    for (value, at), (other, _) in (product.sides(), product.sides()[::-1]):
        able = dependence.on_input(value) and not dependence.on_input(other) and dependence.keeps_tokens_apart(value)
        if able and dependence.combines_tokens(product.out):
            halves = _of_two_tokens(dependence, value, at)
            return None if halves is None else Contraction(product.operation, product.factors, value, value, *halves)
    return None


def _of_two_tokens(dependence: Dependence, value: Value, at: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the terms of the first token of each sum and those of the second; None unless there are two."""
    tokens = dependence.token_of(value).flatten()[at]
    _, kinds = tokens.unique(dim=1, return_inverse=True)
    first = kinds == kinds[0]
    return (at[:, first], at[:, ~first]) if int(kinds.max()) == 1 else None
