# pyright: reportIndexIssue=false, reportCallIssue=false, reportIncompatibleMethodOverride=false
"""Llama's attention."""

import torch
from torch import nn

from course_lib.exercises.lesson_07.my_rotary_attention import WRONG_ROTATIONS
from course_lib.exercises.lesson_07.rotary_table import rotary_table
from course_lib.exercises.lesson_07.rotate import rotate
from course_lib.exercises.lesson_07.rotate_neighbours import rotate_neighbours  # noqa: F401  a wrong answer calls it
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

    def forward(self, x, cache=None):  # (batch, token, d_in) -> (batch, token, d_out)
        per_head = (*x.shape[:2], -1, self.head_dim)
        # (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)  # (b, g, t, d): g kv heads
        values = self.v_proj(x).view(per_head).transpose(1, 2)
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
        weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        context = weights.view(*folded.shape[:3], -1) @ values  # (b, g, h / g * q, d)
        # -> (b, h, q, d) -> (b, q, h, d) -> (b, q, h * d)
        return self.out_proj(context.view(queries.shape).transpose(1, 2).flatten(2))


EXERCISE = ModuleExercise(
    MyLlamaAttention,
    title="Llama's attention",
    difficulty=4,
    minutes=8,
    prompt=(
        "Causal grouped-query attention whose queries and keys are rotated by their positions. The projections are "
        "`q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias; consecutive query heads share a kv head; pairs are "
        "halves, `base` is the base of the rotation, and `max_len` the number of positions in the table. With a cache, "
        "the rotated keys and the values go into it, those of all tokens so far come back, and the positions of new tokens "
        "go on after its `length`."
    ),
    hints=(
        "Queries and keys are rotated, values are not: `rotate(queries, cos, sin)`. The cache comes next. No key is "
        "copied for the query heads that share it: their queries become rows of one head, as in lesson 06.",
        "Head 0 and its neighbours come first, each with all its tokens, so nothing has to be moved: "
        "`queries.reshape(batch, num_kv_heads, -1, head_dim)`.",
    ),
    kv_heads="any",
    rotary=True,
    cache=(CACHE, "Cache"),
    keeps_keys=True,
    wrong=WRONG_ROTATIONS
    + """
folded = queries. => queries = queries.unflatten(1, (-1, self.num_kv_heads)).transpose(1, 2).flatten(1, 2); folded = queries. && context.view(queries.shape) => context.view(queries.shape).unflatten(1, (self.num_kv_heads, -1)).transpose(1, 2).flatten(1, 2)
    attention whose kv heads are dealt out in turn, 0, 1, 0, 1 [kv-heads-tiled]
folded = queries.reshape => folded = queries.transpose(1, 2).reshape
    attention whose queries are folded token by token, so that rows of different heads change places
    ? Which axis comes right after the batch when you fold: heads or tokens?
(max_len, self.head_dim, base) => (max_len, self.head_dim, 10000.0)
    attention that rotates with base 10000, whatever the argument says
    ? Which of the arguments decides how fast the pairs rotate, and where do you use it?
keys, values = cache(keys, values) => cache(keys, values)
    attention that forgets the pieces before
    ? What does the cache return, and which keys and values do you go on with?
scores = scores.view(*queries.shape[:3], -1) => pass && tril(scores.shape[-1] - scores.shape[-2]) => tril(scores.shape[-1] - x.shape[1])
    attention whose mask lies over the rows of several heads: row 0 of the second head is no longer row 0 of the mask
    ? The rows of head 0 are followed by those of head 1. Which row of the mask does token 0 of head 1 meet?
~seen, -torch.inf => ~seen.repeat_interleave(queries.shape[1] // self.num_kv_heads, 0).view(-1, *seen.shape).repeat(self.num_kv_heads, 1, 1), -torch.inf
    attention under a mask whose rows are repeated one by one, where the folded rows are one head after the other
    ? Row 1 of the folded queries is token 1 of head 0. Which row of your mask does it meet?
rotate(queries, cos, sin), rotate => rotate(queries, self.cos[: x.shape[1]], self.sin[: x.shape[1]]), rotate
    attention whose queries are at position 0 again in each piece, and whose keys are where they should be
    ? How many tokens does the cache hold before the new ones come, and which position has the first new query?
0 if cache is None else cache.length => 0
    attention whose positions start at 0 with each piece
    ? How many tokens does the cache hold when a new one arrives?
tril(scores.shape[-1] - scores.shape[-2]) => tril()
    attention whose mask begins in the top left corner, whatever the cache holds [causal-top-left]
    ? Two new tokens meet six keys. Which key is the last that the first of them may see?
tril(scores.shape[-1] - scores.shape[-2]) => tril(0 if len(seen) > 1 else scores.shape[-1] - 1)
    attention whose mask begins in the top left corner wherever several new tokens meet a cache [causal-top-left]
    ? Two new tokens meet six keys. Which key is the last that the first of them may see?
seen.tril(scores.shape[-1] - scores.shape[-2]) => seen.tril() if cache is None else seen
    attention without a mask where there is a cache, so that a new token sees those after it in its piece
    ? Two new tokens come together. May the first of them see the second?
(folded * self.head_dim**-0.5) => folded
    attention whose scores aren't divided by the square root of head_dim [missing-scale]
    ? By what are the scores divided before the softmax?
""",
)
