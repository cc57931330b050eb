"""Who shares which kv head, and what a cache costs."""

from __future__ import annotations

import math

from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers

KV_HEAD_OF = FunctionJudge(
    reference=lambda head, heads, kv_heads: head // (heads // kv_heads),
    inputs=lambda: [
        (head, heads, kv) for heads, kv in ((6, 2), (6, 3), (12, 4), (5, 1), (4, 4)) for head in range(heads)
    ],
    wrong=(
        Wrong(
            "the kv heads dealt out in turn, 0, 1, 0, 1: neighbours should share",
            lambda h, n, kv: h % kv,
            "kv-heads-tiled",
        ),
        Wrong("kv head 0 for everyone", lambda h, n, kv: 0, "kv-head-zero-only"),
        Wrong(
            "the query head's own number: with fewer kv heads there is none",
            lambda h, n, kv: h,
            hint="How many kv heads are there?",
        ),
        Wrong(
            "head // num_kv_heads: that divides by the number of groups, not by their size",
            lambda h, n, kv: h // kv,
            hint="How many query heads share one kv head?",
        ),
        Wrong("the place within the group, not the group", lambda h, n, kv: h % (n // kv), "kv-heads-tiled"),
        Wrong("the groups counted from 1", lambda h, n, kv: h // (n // kv) + 1, hint="From what number do you count?"),
        Wrong("the groups counted from the end", lambda h, n, kv: kv - 1 - h // (n // kv)),
        Wrong("a fraction: a kv head has a whole number", lambda h, n, kv: h / (n // kv), hint="`/` or `//`?"),
        Wrong("the next group from the second head on", lambda h, n, kv: math.ceil(h / (n // kv))),
    ),
)


def _share(keys: Tensor, num_heads: int) -> Tensor:
    return keys.repeat_interleave(num_heads // keys.shape[1], 1)


SHARE_HEADS = FunctionJudge(
    reference=_share,
    inputs=lambda: [(numbers(2, 3, 5, 7), 6), (numbers(3, 2, 4, 5), 8)],
    axes="batch head token head_dim",
    wrong=(
        Wrong(
            "the kv heads dealt out in turn, 0, 1, 0, 1",
            lambda k, n: k.repeat(1, n // k.shape[1], 1, 1),
            "kv-heads-tiled",
        ),
        Wrong("kv head 0 for every query head", lambda k, n: k[:, :1].expand(-1, n, -1, -1), "kv-head-zero-only"),
        Wrong(
            "the mean of the kv heads for every query head",
            lambda k, n: k.mean(1, keepdim=True).expand(-1, n, -1, -1),
            "heads-averaged",
        ),
        Wrong(
            "tokens that are repeated instead of heads",
            lambda k, n: k.repeat_interleave(n // k.shape[1], 2),
            hint="Which axis is the heads'?",
        ),
        Wrong("the kv heads as they were: there must be as many as query heads", lambda k, n: k),
        Wrong(
            "every kv head num_heads times: it should be num_heads // num_kv_heads",
            lambda k, n: k.repeat_interleave(n, 1),
            hint="How many query heads share one kv head?",
        ),
        Wrong("the kv heads in reverse order, shared", lambda k, n: _share(k.flip(1), n)),
        Wrong(
            "the groups on an axis of their own; join them to (batch, head, token, head_dim)",
            lambda k, n: k[:, :, None].expand(-1, -1, n // k.shape[1], -1, -1),
            hint="Which two axes have to become one?",
        ),
    ),
)


CACHE_BYTES = FunctionJudge(
    reference=lambda t, layers, g, d, size: 2 * t * layers * g * d * size,
    inputs=lambda: [(4096, 32, 8, 128, 2), (1000, 3, 5, 7, 4), (17, 11, 1, 64, 2)],
    wrong=(
        Wrong(
            "half of it: the keys without the values, or the other way around",
            lambda t, n, g, d, size: t * n * g * d * size,
            hint="Which two tensors are kept for each token?",
        ),
        Wrong(
            "the count of numbers, not of bytes",
            lambda t, n, g, d, size: 2 * t * n * g * d,
            hint="How large is a number?",
        ),
        Wrong(
            "the cache of a single layer",
            lambda t, n, g, d, size: 2 * t * g * d * size,
            hint="Does every layer keep its own?",
        ),
        Wrong("the size in bits", lambda t, n, g, d, size: 16 * t * n * g * d * size, hint="How many bits has a byte?"),
        Wrong(
            "three tensors a token: the queries are used once and not kept",
            lambda t, n, g, d, size: 3 * t * n * g * d * size,
            hint="Does an old token's query ever get read again?",
        ),
        Wrong(
            "one head of keys and values, however many there are",
            lambda t, n, g, d, size: 2 * t * n * d * size,
            hint="How many kv heads are there in each layer?",
        ),
        Wrong(
            "the size of the scores: tokens times tokens",
            lambda t, n, g, d, size: t * t * n * g * size,
            hint="Are scores kept?",
        ),
        Wrong("the cost of one token", lambda t, n, g, d, size: 2 * n * g * d * size, hint="How many tokens are kept?"),
    ),
)
