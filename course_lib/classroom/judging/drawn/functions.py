"""Inputs of exercises whose answer is a function of numbers, drawn anew: the same kinds as in the public check."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from .draw import Draw

CALLS = 3  # of one function, each with other sizes


def _roles(width: int, draw: Draw, *lengths: int, spread: float = 1.0) -> tuple[Tensor, ...]:
    return tuple(draw.numbers(length, width, spread=spread) for length in lengths)


def _scores_of_token(draw: Draw) -> list[tuple]:
    rows = draw.size_rows(CALLS, 2, 4, 12)  # with few keys all scores may happen to be positive
    return [(draw.numbers(width), draw.numbers(keys, width)) for keys, width in rows]


def _scaled_scores(draw: Draw) -> list[tuple]:
    return [_roles(width, draw, queries, keys) for queries, keys, width in draw.size_rows(CALLS, 3)]


def _softmax_rows(draw: Draw) -> list[tuple]:
    spreads = (1.0, 2.0, 1.0)
    rows = [draw.numbers(*size, spread=spread) for size, spread in zip(draw.size_rows(3, 2), spreads, strict=True)]
    return [(rows[0],), (rows[1],), (rows[2] + 2000.0 + draw.below(1000),)]  # exp of these is infinite


def _attention(draw: Draw) -> list[tuple]:
    return [_roles(width, draw, *[tokens] * 3, spread=1.5) for tokens, width in draw.size_rows(CALLS, 2)]


def _causal_mask(draw: Draw) -> list[tuple]:
    return [(num_tokens,) for num_tokens in draw.sizes(4, 2, 40)]


def _causal_weights(draw: Draw) -> list[tuple]:
    return [(draw.numbers(batch, n, n, spread=2.0),) for batch, n in draw.size_rows(CALLS, 2)]


def _padding_mask(draw: Draw) -> list[tuple]:
    calls = []
    for batch, num_tokens in zip(draw.sizes(CALLS, 2, 4), draw.sizes(CALLS, 5, 12), strict=True):
        calls.append((list(draw.sizes(batch, 1, num_tokens)), num_tokens))
    longest = max(calls[-1][0])
    return [*calls[:-1], (calls[-1][0], longest)]  # one without any padding in its longest sample


def _safe_weights(draw: Draw) -> list[tuple]:
    calls = []
    for batch, n in zip(draw.sizes(CALLS, 2, 4), draw.sizes(CALLS, 5, 9), strict=True):
        padding = torch.tensor(draw.sizes(batch, 0, n - 1))  # on the left: the rows that it hides see nothing
        seen = torch.arange(n) >= padding[:, None]
        calls.append((draw.numbers(batch, n, n, spread=2.0), torch.ones(n, n).tril().bool() & seen[:, None]))
    return calls


def _dropped_weights(draw: Draw) -> list[tuple]:
    calls = []
    for (queries, keys), training in zip(draw.size_rows(4, 2, 3, 9), (True, True, True, False), strict=True):
        cells = queries * keys
        drop = torch.zeros(cells, dtype=torch.bool)
        drop[list(draw.sizes(2 + draw.below(cells // 2), 0, cells - 1))] = True
        share = (10 + draw.below(35)) / 100  # never a half: p and 1 - p would be one
        calls.append((draw.numbers(queries, keys).softmax(-1), drop.view(queries, keys), share, training))
    return draw.shuffled(calls)


def _two_heads(draw: Draw) -> list[tuple]:
    calls = []
    for num_tokens, d_in, head_dim in draw.size_rows(CALLS, 3):
        pairs = [
            tuple(draw.numbers(d_in, head_dim, spread=spread * d_in**-0.5) for _ in range(2)) for spread in (2, 2, 3)
        ]
        calls.append((draw.numbers(num_tokens, d_in), *pairs))
    return calls


def _mix_heads(draw: Draw) -> list[tuple]:
    calls = []
    for square, (batch, num_tokens, heads, head_dim) in enumerate(draw.size_rows(CALLS, 4, 2, 7)):
        contexts = [draw.numbers(batch, num_tokens, head_dim) for _ in range(heads)]
        width = heads * head_dim
        calls.append((contexts, draw.numbers(width if square == 0 else width + 1 + draw.below(5), width)))
    return calls


def _number_at(draw: Draw) -> list[tuple]:
    calls = []
    for axes in draw.shuffled((2, 2, 3, 3, 3, 4, 4, 4, 4, 4)):  # ten: two readings may meet in one slot by chance
        shape = draw.sizes(axes, 2, 7)
        strides = [math.prod(shape[at + 1 :]) for at in range(axes)]
        order = draw.shuffled(range(axes))
        while all(strides[one] > strides[other] for one, other in pairwise(order)):  # as if nothing was transposed
            order = draw.shuffled(range(axes))
        index = tuple(1 + draw.below(shape[at] - 1) for at in order)
        calls.append((draw.numbers(math.prod(shape)), tuple(strides[at] for at in order), index))
    return calls


def _strides_by_head(draw: Draw) -> list[tuple]:
    return draw.size_rows(4, 3, 2, 12)


def _split_heads(draw: Draw) -> list[tuple]:
    rows = draw.size_rows(CALLS, 4, 2, 7)
    return [(draw.numbers(batch, tokens, heads * width), heads) for batch, tokens, heads, width in rows]


def _merge_heads(draw: Draw) -> list[tuple]:
    return [(draw.numbers(*size),) for size in draw.size_rows(CALLS, 4, 2, 7)]


def _scores_by_head(draw: Draw) -> list[tuple]:
    calls = []
    for batch, heads, queries, keys, width in draw.size_rows(CALLS, 5):
        calls.append((draw.numbers(batch, heads, queries, width), draw.numbers(batch, heads, keys, width)))
    return calls


def _multi_query(draw: Draw) -> list[tuple]:
    calls = []
    for batch, heads, tokens, width in draw.size_rows(CALLS, 4, 2, 7):
        shared = (draw.numbers(batch, tokens, width, spread=1.5) for _ in range(2))
        calls.append((draw.numbers(batch, heads, tokens, width, spread=1.5), *shared))
    return calls


def _kv_head_of(draw: Draw) -> list[tuple]:
    several = [(kv * share, kv) for kv, share in draw.size_rows(4, 2, 2, 7)]
    alone, everyone = draw.sizes(2, 3, 9)
    pairs = [*several, (alone, 1), (everyone, everyone)]
    return draw.shuffled([(head, heads, kv) for heads, kv in pairs for head in range(heads)])


def _share_heads(draw: Draw) -> list[tuple]:
    rows = draw.size_rows(CALLS, 5, 2, 8)
    return [(draw.numbers(batch, kv, tokens, width), kv * share) for batch, kv, tokens, width, share in rows]


def _cache_bytes(draw: Draw) -> list[tuple]:
    calls = []
    for tokens, layers, kv, width in draw.size_rows(4, 4, 2, 300):
        calls.append((16 * tokens + draw.below(16), layers, kv, width, draw.pick((2, 4, 8))))
    return [*calls, (*calls[0][:2], 1, *calls[0][3:])]  # and multi-query attention


FUNCTIONS: dict[str, Callable[[Draw], list[tuple]]] = {
    one.__name__[1:]: one
    for one in (
        *(_scores_of_token, _scaled_scores, _softmax_rows, _attention),
        *(_causal_mask, _causal_weights, _padding_mask, _safe_weights, _dropped_weights),
        *(_two_heads, _mix_heads),
        *(_number_at, _strides_by_head, _split_heads, _merge_heads),
        *(_scores_by_head, _multi_query, _kv_head_of, _share_heads, _cache_bytes),
    )
}
