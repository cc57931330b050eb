"""Exercises to lesson 06: shared keys and values, and what they save."""

from __future__ import annotations

from course_lib.attention import GroupedQueryAttention

from .exercise import Exercise
from .judges.multi_query import MULTI_QUERY
from .judges.sharing import CACHE_BYTES, KV_HEAD_OF, SHARE_HEADS
from .modules import ModuleJudge

LESSON_06 = (
    Exercise(
        "multi_query",
        "06",
        "All heads ask one set of keys",
        2,
        6,
        MULTI_QUERY,
        (
            "Keys and values come without an axis of heads. Give them one of size 1: `keys[:, None]`.",
            "A product broadcasts an axis of size 1: (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k).",
            "Scale by head_dim, softmax over the keys, then `weights @ values[:, None]`.",
        ),
    ),
    Exercise(
        "kv_head_of",
        "06",
        "Who shares with whom",
        1,
        3,
        KV_HEAD_OF,
        (
            "Consecutive query heads share: with 6 heads and 2 kv heads, 0, 1, 2 share one and 3, 4, 5 the other.",
            "The size of a group is num_heads // num_kv_heads.",
            "The number of the group is query_head // size of a group.",
        ),
    ),
    Exercise(
        "share_heads",
        "06",
        "Hand the shared heads out",
        2,
        5,
        SHARE_HEADS,
        (
            "Query head i gets kv head i // (num_heads // num_kv_heads).",
            "Two functions of PyTorch repeat: one gives 0, 1, 0, 1, the other one 0, 0, 1, 1.",
            "`keys.repeat_interleave(num_heads // num_kv_heads, dim=1)`. (It copies; lesson 06 shows how not to.)",
        ),
    ),
    Exercise(
        "cache_bytes",
        "06",
        "What a cache costs",
        1,
        3,
        CACHE_BYTES,
        (
            "What is kept for a token, in one layer, by one kv head?",
            "A key and a value, each head_dim numbers.",
            "Times kv heads, layers, tokens, and the bytes of one number.",
        ),
    ),
    Exercise(
        "GroupedQuery",
        "06",
        "Grouped-query attention as a module",
        4,
        15,
        ModuleJudge(GroupedQueryAttention, (7, 24, 6, 2), num_heads=6, num_kv_heads=2),
        (
            "It is `MultiHead` of lesson 05 with narrower `k_proj` and `v_proj`: num_kv_heads * head_dim.",
            "Keys and values are cut into num_kv_heads heads, queries into num_heads; all heads are head_dim wide.",
            "Before the scores, `share_heads` brings keys and values to num_heads.",
        ),
    ),
)
