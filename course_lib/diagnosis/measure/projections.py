"""Find the products of tokens with weights, and the column of weights that each element comes from."""

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, Contraction, Value, propagate

from .dependence import Dependence

ColumnSet = tuple[int, int, int]  # smallest column, largest column, integer that identifies the set


def find_projections(dependence: Dependence, products: list[Contraction]) -> tuple[list[Contraction], list[Tensor]]:
    """Find the products of tokens with weights.

    Args:
        dependence: of the run.
        products: every product with a sum.

    Returns:
        The projections, in order; and per value, for each element the column of weights that projected it.
    """
    trace, d_in = dependence.run.trace, dependence.run.x.shape[-1]
    constants, count = _number_constants(dependence)
    weights = propagate(trace, constants)
    from_input = trace.descendants_of_input()
    start = {trace.x.number: count + torch.arange(d_in).expand(trace.x.tensor.shape)}
    count += d_in
    projections: list[Contraction] = []
    rotations: list[tuple[Contraction, Value, Tensor]] = []
    for product in products:
        found = _tokens_and_weights(dependence, product, from_input)
        if found is None:
            continue
        (token, token_at), (fixed, fixed_at) = found
        if _rotates_by_position(dependence, product, fixed_at):
            rotations.append((product, token, token_at))
            continue
        columns = weights[fixed.number].flatten()[fixed_at[:, 0]]
        if (columns == UNLABELLED).any():  # weights that were computed: each product gets columns of its own
            columns = count + fixed_at[:, 0]
            count += fixed.tensor.numel()
        start[product.out.number] = columns.view(product.out.tensor.shape)
        projections.append(product)
    return projections, _propagate_through(dependence, start, rotations)


def column_sets(columns: Tensor) -> list[ColumnSet]:
    """Return the set of columns in each row of (..., c); sets sort in the order of heads, even if heads overlap."""
    real = torch.where(columns == UNLABELLED, torch.iinfo(torch.int64).max, columns)
    small, large = real.amin(-1).flatten().tolist(), columns.amax(-1).flatten().tolist()
    hashes = ((columns * 2654435761 + 40503) % 1000003).sum(-1).flatten().tolist()
    return list(zip(small, large, hashes, strict=True))


def _number_constants(dependence: Dependence) -> tuple[dict[int, Tensor], int]:
    """Label the elements of all tensors that existed before the run, except x; return the labels and their count."""
    trace, start, count = dependence.run.trace, {}, 0
    for value in trace.values:
        if value.made_by is None and value is not trace.x:
            start[value.number] = count + torch.arange(value.tensor.numel()).view(value.tensor.shape)
            count += value.tensor.numel()
    return start, count


def _tokens_and_weights(
    dependence: Dependence, product: Contraction, from_input: set[int]
) -> tuple[tuple[Value, Tensor], tuple[Value, Tensor]] | None:
    """Return the factor with tokens and the factor that no x changes; None if the product is not a projection."""
    if not dependence.keeps_tokens_apart(product.out):
        return None
    for tokens, weights in (product.sides(), product.sides()[::-1]):
        writers = dependence.run.trace.writers_of(weights[0], product.factors[0].number)
        if not from_input.intersection(writers) and dependence.keeps_tokens_apart(tokens[0]):
            return tokens, weights
    return None


def _rotates_by_position(dependence: Dependence, product: Contraction, fixed_at: Tensor) -> bool:
    """Return whether a constant has elements that not all tokens read, and so rotates by position, or compares them."""
    tokens = dependence.token_of(product.out).flatten()
    used = torch.stack([fixed_at[:, 0], tokens])[:, tokens >= 0]
    return len(torch.unique(used, dim=1).T) < len(torch.unique(used[0])) * len(torch.unique(used[1]))


def _propagate_through(
    dependence: Dependence, start: dict[int, Tensor], rotations: list[tuple[Contraction, Value, Tensor]]
) -> list[Tensor]:
    """Return the columns of all values; rotated values, in order, keep their columns."""
    trace = dependence.run.trace
    columns = propagate(trace, start)
    for product, token, token_at in rotations:
        rows = columns[token.number].flatten()[token_at]
        each = torch.arange(len(rows))
        shape = product.out.tensor.shape
        start[product.out.number] = rows[each, each % shape[-1] % product.size].view(shape)
        columns = propagate(trace, start)
    return columns
