"""Find tokens that meet in a sum, as in linear, channel or additive attention, or in a distance, not a dot product."""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import torch

from course_lib.tracing import FACTORS, Contraction, Operation, Value, contractions, outer_products

from .dependence import Dependence
from .operation_names import SOFTMAXES

DISTANCES = ("_cdist_forward", "_euclidean_dist", "linalg_vector_norm", "norm", "cdist", "sub")


class TokenSum(NamedTuple):
    """A product of one token's vector with a sum, over tokens, of products of other tokens' vectors.

    Attributes:
        operation: the product.
        before: the operations behind the sum.
    """

    operation: Operation
    before: list[Operation]


def find_token_sum(dependence: Dependence, products: list[Contraction] | None = None) -> TokenSum | None:
    """Return the first live product that reads a sum over tokens; None if there is none."""
    trace, live = dependence.run.trace, dependence.run.live
    products = contractions(trace) if products is None else products
    pairs = [one for one in (*products, *outer_products(trace)) if all(dependence.on_input(v) for v, _ in one.sides())]
    sums = trace.descendants({one.operation.number for one in pairs})
    for product in products:
        for (token, _), (other, _) in (product.sides(), product.sides()[::-1]):
            writers = sums.intersection(trace.writers_of(other, product.factors[0].number))
            meets = dependence.keeps_tokens_apart(token) and dependence.combines_tokens(other)
            if product.operation.number in live and meets and writers:
                return TokenSum(product.operation, dependence.run.in_order(trace.ancestors([other])))
    return None


def find_distance(dependence: Dependence) -> Operation | None:
    """Return the live operation that measures how far each token is from each; None if there is none."""
    num_tokens = dependence.sizes[1]
    for operation in dependence.run.live_operations:
        if operation.name in DISTANCES and operation.outputs and _is_table(dependence, operation, num_tokens):
            return operation
    return None


def find_elementwise(dependence: Dependence) -> Operation | None:
    """Return the live operation that multiplies, element by element, the vectors of each two tokens; None without."""
    multiplications = (one for one in dependence.run.live_operations if one.name == "mul")
    num_tokens = dependence.sizes[1]
    return next((one for one in multiplications if _is_table(dependence, one, num_tokens)), None)


def find_pair_scores(dependence: Dependence) -> Operation | None:
    """Return the first live softmax of scores each of which comes from one query and one key; None without."""
    return next(pair_softmaxes(dependence), None)


def pair_softmaxes(dependence: Dependence) -> Iterator[Operation]:
    """Yield the live softmaxes of scores each of which comes from one query and one key."""
    num_tokens = dependence.sizes[1]
    own = 1 << torch.arange(num_tokens)
    for operation in dependence.run.live_operations:
        table = operation.inputs[0] if operation.name in SOFTMAXES else None
        if table is None or not dependence.combines_tokens(table):
            continue
        axes = [axis for axis, size in enumerate(table.tensor.shape) if size == num_tokens]
        pairs = (dependence.tokens[table.number].movedim(pair, (-2, -1)) for pair in combinations(axes, 2))
        if any(not (tokens & ~(own[:, None] | own)).any() for tokens in pairs):
            yield operation


def find_channel_weights(dependence: Dependence) -> Operation | None:
    """Return the live softmax over tokens that gives each pair of them a weight for every channel; None without."""
    trace, num_tokens = dependence.run.trace, dependence.sizes[1]
    for softmax in pair_softmaxes(dependence):
        after, count = trace.descendants({softmax.number}), softmax.outputs[0].tensor.numel()
        readers = (
            one for one in dependence.run.live_operations if one.number in after and one.name in ("mul", *FACTORS)
        )
        reader = next((one for one in readers if len(list(filter(dependence.on_input, one.inputs))) > 1), None)
        summed = num_tokens if reader is not None and reader.name in FACTORS else 1
        apart = count > dependence.sizes[0] * num_tokens**2
        if reader is not None and apart and reader.outputs[0].tensor.numel() * summed == count:
            return softmax
    return None


def _is_table(dependence: Dependence, operation: Operation, num_tokens: int) -> bool:
    """Return whether an operation makes a number, or a vector from two vectors, for each pair of tokens."""
    table, factors = operation.outputs[0], [value for value in operation.inputs if dependence.on_input(value)]
    of_vectors = operation.name in ("sub", "mul")
    shape = table.tensor.shape[:-1] if of_vectors else table.tensor.shape
    pairs = shape[-2:] == (num_tokens, num_tokens) and dependence.combines_tokens(table)
    return pairs and (not of_vectors or _are_apart(dependence, factors))


def _are_apart(dependence: Dependence, values: list[Value]) -> bool:
    return len(values) == 2 and all(map(dependence.keeps_tokens_apart, values))
