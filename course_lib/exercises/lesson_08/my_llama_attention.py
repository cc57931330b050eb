# pyright: reportIndexIssue=false, reportCallIssue=false, reportIncompatibleMethodOverride=false
"""Llama's attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.exercise import Wrong
from course_lib.exercises.lesson_07.rotary_table import rotary_table
from course_lib.exercises.lesson_07.rotate import rotate
from course_lib.exercises.lesson_07.rotate_neighbours import rotate_neighbours
from course_lib.exercises.module_exercise import ModuleExercise

CACHE = """\
import torch
from torch import nn

class Cache(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, head_dim):
        super().__init__()
        self.keys = self.values = torch.zeros(batch, num_kv_heads, 0, head_dim, dtype=torch.float64)
        self.length = 0

    def forward(self, keys, values):
        if keys.shape[1] != self.keys.shape[1]:
            raise ValueError(f"the cache holds {self.keys.shape[1]} kv heads, and the new keys have {keys.shape[1]}")
        self.keys, self.values = torch.cat([self.keys, keys], dim=2), torch.cat([self.values, values], dim=2)
        self.length = self.keys.shape[2]
        return self.keys, self.values
"""


class MyLlamaAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads, base=10000.0, max_len=512):
        super().__init__()
        self.num_kv_heads, self.head_dim = num_kv_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        cos, sin = rotary_table(max_len, self.head_dim, base)  # (position, pair)
        self.register_buffer("cos", cos.float(), persistent=False)
        self.register_buffer("sin", sin.float(), persistent=False)

    def forward(self, x, positions=None, keep=None, cache=None):
        # (batch, token, d_in) -> (batch, token, d_out)
        per_head = (*x.shape[:2], -1, self.head_dim)
        # (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)  # (b, g, t, d): g kv heads
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        if positions is None:
            start = 0 if cache is None else cache.length
            positions = torch.arange(start, start + x.shape[1], device=x.device)
        cos, sin = self.cos[positions], self.sin[positions]  # (token, pair)
        queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin)
        if cache is not None:
            keys, values = cache(keys, values)  # those of all tokens so far
        # (b, h, q, d) -> (b, g, h / g * q, d): heads that share keys become rows
        folded = queries.reshape(len(x), self.num_kv_heads, -1, self.head_dim)
        # (b, g, h / g * q, d) @ (b, g, d, k) -> (b, g, h / g * q, k)
        scores = (folded * self.head_dim**-0.5) @ keys.transpose(2, 3)
        scores = scores.view(*queries.shape[:3], -1)  # -> (b, h, q, k)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
        # the last query sees all keys
        seen = seen.tril(scores.shape[-1] - scores.shape[-2])
        hidden = ~(seen if keep is None else seen & keep)
        # not -inf: a row of padding, which sees nothing, must not become nan
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
        context = weights.view(*folded.shape[:3], -1) @ values  # (b, g, h / g * q, d)
        # -> (b, h, q, d) -> (b, q, h, d) -> (b, q, h * d)
        return self.out_proj(context.view(queries.shape).transpose(1, 2).flatten(2))


class _Variant(MyLlamaAttention):
    """The formula with parts that a mistake replaces."""

    def rotated(self, queries: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return rotate(queries, cos, sin), rotate(keys, cos, sin), values

    def cached(self, keys: Tensor, values: Tensor, cache: Any) -> tuple[Tensor, Tensor]:
        return (keys, values) if cache is None else cache(keys, values)

    def start(self, cache: Any) -> int:
        return 0 if cache is None else cache.length

    def shared(self, x: Tensor, group: int) -> Tensor:
        return x.repeat_interleave(group, dim=1)

    def mixed(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        group = queries.shape[1] // self.num_kv_heads
        scores = queries @ self.shared(keys, group).mT
        return self.weights(scores) @ self.shared(values, group)

    def weights(self, scores: Tensor) -> Tensor:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.shape[-1] - scores.shape[-2])
        return (scores * self.head_dim**-0.5).masked_fill(later, -torch.inf).softmax(-1)

    def forward(self, x: Tensor, positions: Any = None, keep: Any = None, cache: Any = None) -> Tensor:
        projected = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        split = (one.unflatten(2, (-1, self.head_dim)).transpose(1, 2) for one in projected)
        at = slice(self.start(cache), self.start(cache) + x.shape[1])
        queries, keys, values = self.rotated(*split, self.cos[at], self.sin[at])
        keys, values = self.cached(keys, values, cache)
        return self.out_proj(self.mixed(queries, keys, values).transpose(1, 2).flatten(2))


class _NotRotated(_Variant):
    def rotated(self, queries: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return queries, keys, values


class _QueriesOnly(_Variant):
    def rotated(self, queries: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return rotate(queries, cos, sin), keys, values


class _KeysOnly(_Variant):
    def rotated(self, queries: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return queries, rotate(keys, cos, sin), values


class _ValuesToo(_Variant):
    def rotated(self, queries: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return rotate(queries, cos, sin), rotate(keys, cos, sin), rotate(values, cos, sin)


class _Neighbours(_Variant):
    def rotated(self, queries: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return rotate_neighbours(queries, cos, sin), rotate_neighbours(keys, cos, sin), values


class _Tiled(_Variant):
    def shared(self, x: Tensor, group: int) -> Tensor:
        return x.repeat(1, group, 1, 1)


class _Forgets(_Variant):
    def cached(self, keys: Tensor, values: Tensor, cache: Any) -> tuple[Tensor, Tensor]:
        super().cached(keys, values, cache)
        return keys, values


class _FoldedByToken(_Variant):
    def mixed(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        rows = queries.transpose(1, 2).reshape(len(queries), self.num_kv_heads, -1, self.head_dim)
        weights = self.weights((rows @ keys.mT).view(*queries.shape[:3], -1))
        return (weights.view(*rows.shape[:3], -1) @ values).view(queries.shape)


class _OneBase(_Variant):
    def __init__(self, d_in: int, d_out: int, num_heads: int, num_kv_heads: int, base: float = 10000.0) -> None:
        super().__init__(d_in, d_out, num_heads, num_kv_heads)


class _Restarts(_Variant):
    def start(self, cache: Any) -> int:
        return 0


EXERCISE = ModuleExercise(
    MyLlamaAttention,
    title="Llama's attention",
    difficulty=4,
    minutes=5,
    prompt=(
        "Causal grouped-query attention whose queries and keys are rotated by their positions. The projections are "
        "`q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias; consecutive query heads share a kv head; pairs are "
        "halves, `base` is the base of the rotation, and `max_len` the number of positions in the table. With a cache, "
        "the rotated keys and the values go into it, and all tokens so far come back. `positions` and `keep` serve the "
        "lesson; the check gives neither, and leaves `max_len` at 512."
    ),
    hints=(
        "Queries and keys are rotated, values are not: `rotate(queries, cos, sin)`. The cache comes next. No key is "
        "copied for the query heads that share it: their queries become rows of one head, as in lesson 06.",
        "Head 0 and its neighbours come first, each with all its tokens, so nothing has to be moved: "
        "`queries.reshape(batch, num_kv_heads, -1, head_dim)`.",
    ),
    kv_heads="any",
    even_head_dim=True,
    cache=(CACHE, "Cache"),
    wrong=(
        Wrong("attention without any rotation", _NotRotated, "rotary-unused"),
        Wrong(
            "attention in which only the queries are rotated",
            _QueriesOnly,
            hint="A score should depend on the distance. Which two angles are subtracted from each other?",
        ),
        Wrong(
            "attention in which only the keys are rotated",
            _KeysOnly,
            hint="A score should depend on the distance. Which two angles are subtracted from each other?",
        ),
        Wrong("attention whose values are rotated, too", _ValuesToo, "rotary-on-values"),
        Wrong(
            "attention that rotates pairs of neighbours; here the pairs are halves",
            _Neighbours,
            hint="Which element is paired with element 0?",
        ),
        Wrong("attention whose kv heads are dealt out in turn, 0, 1, 0, 1", _Tiled, "kv-heads-tiled"),
        Wrong(
            "attention whose queries are folded token by token, so that rows of different heads change places",
            _FoldedByToken,
            hint="Which axis comes right after the batch when you fold: heads or tokens?",
        ),
        Wrong(
            "attention that rotates with base 10000, whatever the argument says",
            _OneBase,
            hint="Which of the arguments decides how fast the pairs rotate, and where do you use it?",
        ),
        Wrong(
            "attention that forgets the pieces before",
            _Forgets,
            hint="What does the cache return, and which keys and values do you go on with?",
        ),
        Wrong(
            "attention whose positions start at 0 with each piece",
            _Restarts,
            hint="How many tokens does the cache hold when a new one arrives?",
        ),
    ),
)
