"""Orders in which modules lay out the rows of their projections: packed or apart, by role, by head or by number."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import permutations

import torch
from torch import Tensor

BIAS, ROWS, MIX = "bias", "rows", "mix"  # what a parameter may be: of no matrix, of q, k and v, of the output


def kind_of(shape: tuple[int, ...], d_in: int, d_out: int) -> str:
    """Tell by its sizes what a parameter is: BIAS, ROWS (it meets d_in) or MIX (it makes d_out)."""
    if sum(size > 1 for size in shape) < 2 or (d_in not in shape and d_out not in shape):
        return BIAS
    return ROWS if d_in in shape else MIX


def pile(weights: Mapping[str, Tensor], width: int, turned: bool = False) -> Tensor | None:
    """Lay matrices one below the other, as rows of a width.

    Args:
        weights: parameters that all have an axis of that width; it may be the first, the last or in the middle.
        width: of a row.
        turned: where a parameter has two such axes, whether the last one is meant, not the first.

    Returns:
        (row, width), or None if there is nothing.
    """
    rows = []
    for weight in weights.values():
        axes = [axis for axis, size in enumerate(weight.shape) if size == width]
        rows.append(weight.movedim(axes[-1 if turned else 0], -1).reshape(-1, width))
    return torch.cat(rows) if rows else None


@cache
def orders(num_heads: int, num_kv_heads: int, head_dim: int) -> Tensor:
    """Every order of rows that is tried, the likeliest first.

    Canonical is: the rows of all queries, of all keys, of all values, each head by head.

    Returns:
        (order, row) of canonical row numbers: entry [i, r] says which canonical row stands in row r of a pile that is
        laid out in order i.
    """
    count = num_kv_heads * head_dim
    q = torch.arange(num_heads * head_dim).view(num_heads, head_dim)
    k = (len(q) * head_dim + torch.arange(count)).view(num_kv_heads, head_dim)
    v = k + count
    share = num_heads // num_kv_heads
    found = []
    for roles in permutations((q, k, v)):
        found += [torch.cat([one.flatten() for one in roles]), torch.cat([one.T.flatten() for one in roles])]
        if share == 1:  # one block of three axes: role, head, head_dim, in any order
            found += [torch.stack(roles).permute(axes).flatten() for axes in permutations(range(3))]
    for first, second in ((k, v), (v, k)):
        shared = torch.stack([first, second])  # packed apart from the queries: (2, kv head, head_dim) in any order
        for axes in permutations(range(3)):
            found += [torch.cat([q.flatten(), shared.permute(axes).flatten()])]
            found += [torch.cat([shared.permute(axes).flatten(), q.flatten()])]
        # A group after the other: its queries, its keys, its values.
        found += [torch.cat([q.view(-1, share, head_dim), first[:, None], second[:, None]], 1).flatten()]
    return torch.stack(found)
