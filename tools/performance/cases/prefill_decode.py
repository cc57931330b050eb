"""The ways to share one kv head among many query heads, from the most to the least expensive."""

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import attend, attend_fused, causal_keep
from course_lib.timing import Case, broadcast_attention, random_tensors
from tools.performance.costs import attention_cost
from tools.performance.experiment import BACKWARD, FORWARD, Experiment, with_fields

BROADCAST, FOLDED, ATTEND, ATTEND_FUSED = "broadcast", "folded", "attend", "attend_fused"


def prefill(device: str, quick: bool) -> Iterator[Experiment]:
    """Build the cases that compute all tokens at once: 1024 tokens of one sample, 32 heads of 64."""
    for dtype in ("float32", "bfloat16"):
        slow = device == "cpu" and dtype == "bfloat16"  # as most processors are
        num_tokens = 16 if quick else (256 if slow else 1024)
        num_heads, head_dim = (4, 8) if quick else (32, 64)
        title = f"MQA prefill: batch 1, {num_tokens} tokens, {num_heads} heads of {head_dim}"
        shape = (1, num_heads, num_tokens, head_dim)
        queries, keys, values = random_tensors(device, dtype, shape, *[(1, 1, num_tokens, head_dim)] * 2)
        leaves = tuple(tensor.requires_grad_() for tensor in (queries, keys, values))
        cost = attention_cost(queries, keys, values, causal=True)
        cases = with_fields(ways_to_share(queries, keys, values, causal=True), leaves=leaves, **cost)
        sizes = {"batch": 1, "num_heads": num_heads, "head_dim": head_dim, "num_tokens": num_tokens}
        yield Experiment(title, dtype, cases, sizes, FORWARD)
        yield Experiment(title, dtype, cases, sizes, BACKWARD)


def decode(device: str, quick: bool) -> Iterator[Experiment]:
    """Build the cases that compute one new token: 8 samples, 32 heads of 64, 1024 to 32768 keys."""
    batch, num_heads, head_dim = (2, 4, 8) if quick else (8, 32, 64)
    for dtype in ("float32", "bfloat16"):
        for key_len in (16, 64) if quick else (1024, 4096, 16384, 32768):
            title = f"MQA decode: batch {batch}, one query each, {num_heads} heads of {head_dim}, {key_len} keys"
            shape = (batch, num_heads, 1, head_dim)
            queries, keys, values = random_tensors(device, dtype, shape, *[(batch, 1, key_len, head_dim)] * 2)
            cost = attention_cost(queries, keys, values)
            cases = with_fields(ways_to_share(queries, keys, values), cache_bytes=keys.nbytes + values.nbytes, **cost)
            sizes = {"batch": batch, "num_heads": num_heads, "head_dim": head_dim, "key_len": key_len}
            yield Experiment(title, dtype, cases, sizes, FORWARD, cold=not quick)


def ways_to_share(queries: Tensor, keys: Tensor, values: Tensor, *, causal: bool = False) -> list[Case]:
    """Build multi-query attention in eight ways, broadcasting first.

    Queries are (batch, head, query, head_dim), keys and values (batch, 1, key, head_dim); with `causal` later keys are
    hidden, and there must be as many queries as keys.
    """
    num_heads, query_len = queries.shape[1:3]
    keep = causal_keep(query_len, keys.shape[2], device=queries.device) if causal else None
    folded_keep = None if keep is None else keep.repeat(num_heads, 1)  # (q, k) -> (h * q, k), made once
    copies = 2 * num_heads * keys.nbytes  # a copy of the keys and of the values for every head

    def sdpa(keys: Tensor, values: Tensor, enable_gqa: bool = False) -> Tensor:
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=causal, enable_gqa=enable_gqa)

    def repeat(shared: Tensor) -> Tensor:
        return shared.repeat_interleave(num_heads, dim=1)

    def expand(shared: Tensor) -> Tensor:
        return shared.expand(-1, num_heads, -1, -1)  # stride 0

    def folded() -> Tensor:
        return broadcast_attention(queries.flatten(1, 2)[:, None], keys, values, folded_keep).view(queries.shape)

    def sdpa_folded() -> Tensor:
        folded_queries = queries.flatten(1, 2)[:, None]  # (b, h, q, d) -> (b, 1, h * q, d)
        return F.scaled_dot_product_attention(folded_queries, keys, values, folded_keep).view(queries.shape)

    return [
        Case(BROADCAST, lambda: broadcast_attention(queries, keys, values, keep), required_bytes=copies // 2),
        Case(FOLDED, folded),
        Case("SDPA, repeat_interleave", lambda: sdpa(repeat(keys), repeat(values)), required_bytes=copies),
        Case("SDPA, expand", lambda: sdpa(expand(keys), expand(values))),
        Case("SDPA, enable_gqa", lambda: sdpa(keys, values, enable_gqa=True)),
        Case("SDPA, folded", sdpa_folded),
        Case(ATTEND, lambda: attend(queries, keys, values, causal=causal)[0]),
        Case(ATTEND_FUSED, lambda: attend_fused(queries, keys, values, causal=causal)),
    ]
