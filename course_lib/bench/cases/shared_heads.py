"""One head of keys and values for many heads of queries: the ways to share it, from the costly to the cheap."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import attend, attend_fused, causal_keep

from ..case import BACKWARD, FORWARD, Case, Experiment, all_of, core_cost, draw

BROADCAST, FOLDED, ATTEND, ATTEND_FUSED = "broadcast", "folded", "attend", "attend_fused"


def prefill(device: str, quick: bool) -> Iterator[Experiment]:
    """All tokens at once: 1024 tokens of one sample, 32 heads of 64."""
    for dtype in ("float32", "bfloat16"):
        slow = device == "cpu" and dtype == "bfloat16"  # most processors are
        num_tokens = 16 if quick else (256 if slow else 1024)
        num_heads, head_dim = (4, 8) if quick else (32, 64)
        title = f"MQA prefill: batch 1, {num_tokens} tokens, {num_heads} heads of {head_dim}"
        shape = (1, num_heads, num_tokens, head_dim)
        queries, keys, values = draw(device, dtype, shape, *[(1, 1, num_tokens, head_dim)] * 2)
        leaves = tuple(each.requires_grad_() for each in (queries, keys, values))
        cost = core_cost(queries, keys, values, causal=True)
        cases = all_of(ways_to_share(queries, keys, values, causal=True), leaves=leaves, **cost)
        sizes = {"batch": 1, "num_heads": num_heads, "head_dim": head_dim, "num_tokens": num_tokens}
        yield Experiment(title, dtype, cases, sizes, FORWARD)
        yield Experiment(title, dtype, cases, sizes, BACKWARD)


def decode(device: str, quick: bool) -> Iterator[Experiment]:
    """One new token: 8 samples, 32 heads of 64, 1024 to 32768 keys."""
    batch, num_heads, head_dim = (2, 4, 8) if quick else (8, 32, 64)
    for dtype in ("float32", "bfloat16"):
        for key_len in (16, 64) if quick else (1024, 4096, 16384, 32768):
            title = f"MQA decode: batch {batch}, one query each, {num_heads} heads of {head_dim}, {key_len} keys"
            shape = (batch, num_heads, 1, head_dim)
            queries, keys, values = draw(device, dtype, shape, *[(batch, 1, key_len, head_dim)] * 2)
            cost = core_cost(queries, keys, values)
            cases = all_of(ways_to_share(queries, keys, values), cache_bytes=keys.nbytes + values.nbytes, **cost)
            sizes = {"batch": batch, "num_heads": num_heads, "head_dim": head_dim, "key_len": key_len}
            yield Experiment(title, dtype, cases, sizes, FORWARD, cold=not quick)


def multi_query_decode(device: str, quick: bool) -> list[Case]:
    """For lesson 06: one new token of 8 samples, 32 query heads of 64, against 4096 cached keys and values."""
    key_len = 64 if quick else 4096
    tensors = draw(device, "float32", (8, 32, 1, 64), (8, 1, key_len, 64), (8, 1, key_len, 64))
    return [case for case in ways_to_share(*tensors) if case.name in (BROADCAST, ATTEND, ATTEND_FUSED)]


def ways_to_share(queries: Tensor, keys: Tensor, values: Tensor, *, causal: bool = False) -> list[Case]:
    """Multi-query attention in eight ways.

    Args:
        queries: (batch, head, query, head_dim).
        keys, values: (batch, 1, key, head_dim).
        causal: whether later keys are hidden; as many queries as keys then.

    Returns:
        The cases, broadcasting first.
    """
    num_heads, query_len = queries.shape[1:3]
    keep = causal_keep(query_len, keys.shape[2], device=queries.device) if causal else None
    folded_keep = None if keep is None else keep.repeat(num_heads, 1)  # (q, k) -> (h * q, k), made once
    copies = 2 * num_heads * keys.nbytes  # a copy of the keys and of the values for every head

    def folded() -> Tensor:
        return broadcast_attention(queries.flatten(1, 2)[:, None], keys, values, folded_keep).view(queries.shape)

    def sdpa_folded() -> Tensor:
        folded_queries = queries.flatten(1, 2)[:, None]  # (b, h, q, d) -> (b, 1, h * q, d)
        return F.scaled_dot_product_attention(folded_queries, keys, values, folded_keep).view(queries.shape)

    def sdpa_expand() -> Tensor:
        shared = (each.expand(-1, num_heads, -1, -1) for each in (keys, values))  # a view: stride 0
        return F.scaled_dot_product_attention(queries, *shared, is_causal=causal)

    def sdpa_repeat() -> Tensor:
        repeated = (torch.repeat_interleave(each, num_heads, dim=1) for each in (keys, values))
        return F.scaled_dot_product_attention(queries, *repeated, is_causal=causal)

    def sdpa_enable_gqa() -> Tensor:
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=causal, enable_gqa=True)

    return [
        Case(BROADCAST, lambda: broadcast_attention(queries, keys, values, keep), needs=copies // 2),
        Case(FOLDED, folded),
        Case("SDPA, repeat_interleave", sdpa_repeat, needs=copies),
        Case("SDPA, expand", sdpa_expand),
        Case("SDPA, enable_gqa", sdpa_enable_gqa),
        Case("SDPA, folded", sdpa_folded),
        Case(ATTEND, lambda: attend(queries, keys, values, causal=causal)[0]),
        Case(ATTEND_FUSED, lambda: attend_fused(queries, keys, values, causal=causal)),
    ]


def broadcast_attention(queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None = None) -> Tensor:
    """Multi-query attention as usually written: one kv head, broadcast by matmul, which copies it for every head."""
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(2, 3)  # bhqd, b1dk -> bhqk
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    return scores.softmax(dim=-1) @ values
