"""The orders in which modules arrange the rows of their projections: packed or apart, by role, head or element."""

from collections.abc import Mapping
from functools import cache
from itertools import permutations

import torch
from torch import Tensor

# A parameter is a bias (no matrix), a projection of x to queries, keys or values, or the output projection.
BIAS, PROJECTION, OUTPUT = "bias", "projection", "output"


def parameter_kind(shape: tuple[int, ...], d_in: int, d_out: int) -> str:
    """Classify a parameter by its shape: BIAS, PROJECTION (it has an axis of size d_in) or OUTPUT (of size d_out)."""
    if sum(size > 1 for size in shape) < 2 or (d_in not in shape and d_out not in shape):
        return BIAS
    return PROJECTION if d_in in shape else OUTPUT


def stack_rows(
    weights: Mapping[str, Tensor], width: int, transposed: bool = False, known: Mapping[str, int] | None = None
) -> Tensor | None:
    """Stack matrices as rows of one width.

    Args:
        weights: Parameters that all have an axis of that width: the first, the last or one in the middle.
        width: The size of a row.
        transposed: Which axis is meant where a parameter has two of that width: the last if true, else the first.
        known: Name -> the axis that is meant, as far as it is known.

    Returns:
        (row, width), or None if there are no parameters.
    """
    rows = []
    for name, weight in weights.items():
        axes = [axis for axis, size in enumerate(weight.shape) if size == width]
        axis = (known or {}).get(name, axes[-1 if transposed else 0])
        rows.append(weight.movedim(axis, -1).reshape(-1, width))
    return torch.cat(rows) if rows else None


@cache
def row_permutations(num_heads: int, num_kv_heads: int, head_dim: int, value_dim: int) -> Tensor:
    """List all row orders that are tried, the most likely first.

    In the canonical order come the rows of all queries, of all keys, of all values, each head by head.

    Returns:
        (order, row) of canonical row indices: element [i, r] is the canonical row at row r of a stack in order i.
    """
    count = num_kv_heads * head_dim
    q = torch.arange(num_heads * head_dim).view(num_heads, head_dim)
    k = (len(q) * head_dim + torch.arange(count)).view(num_kv_heads, head_dim)
    v = (len(q) * head_dim + count + torch.arange(num_kv_heads * value_dim)).view(num_kv_heads, value_dim)
    group, alike = num_heads // num_kv_heads, head_dim == value_dim
    found = []
    for roles in permutations((q, k, v)):
        found += [torch.cat([role.flatten() for role in roles]), torch.cat([role.T.flatten() for role in roles])]
    for first, second in ((k, v), (v, k)) if alike else ():
        shared = torch.stack([first, second])  # packed apart from the queries: (2, kv head, head_dim) in any order
        for axes in permutations(range(3)):
            found += [torch.cat([q.flatten(), shared.permute(axes).flatten()])]
            found += [torch.cat([shared.permute(axes).flatten(), q.flatten()])]
        # One group after the other: its queries, its keys, its values.
        found += [torch.cat([q.view(-1, group, head_dim), first[:, None], second[:, None]], 1).flatten()]
    if group == 1 and alike:  # one block of role, head, head_dim in any order; last, so that indices stay the same
        for roles in permutations((q, k, v)):
            found += [torch.stack(roles).permute(axes).flatten() for axes in permutations(range(3))]
    return torch.stack(found)
