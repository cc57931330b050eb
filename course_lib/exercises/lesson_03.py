"""Exercises to lesson 03: heads side by side, and what W^O does."""

from __future__ import annotations

from course_lib.attention import MultiHeadAttentionWrapper

from .exercise import Exercise
from .judges.wrapper import MIX_HEADS, TWO_HEADS
from .modules import ModuleJudge

LESSON_03 = (
    Exercise(
        "two_heads",
        "03",
        "Two heads by hand",
        2,
        7,
        TWO_HEADS,
        (
            "Write one head first, with `q_proj[0]`, `k_proj[0]`, `v_proj[0]`, and then the same with 1.",
            "A loop over 0 and 1 can't forget to change an index. Scale by the width of one head.",
            "`torch.cat([context_0, context_1], dim=-1)` puts them side by side.",
        ),
    ),
    Exercise(
        "mix_heads",
        "03",
        "What W^O does",
        2,
        5,
        MIX_HEADS,
        (
            "There are two ways to write it: join first, or project each head and add.",
            "`nn.Linear` keeps its matrix as (out, in) and computes `x @ weight.T`.",
            "Joined: `torch.cat(contexts, dim=-1) @ w_o.T`. Added: the first head_dim columns of `w_o` are head 0's.",
        ),
    ),
    Exercise(
        "Wrapper",
        "03",
        "The wrapper",
        3,
        8,
        ModuleJudge(MultiHeadAttentionWrapper, (7, 12, 3), num_heads=3),
        (
            "`d_out` is the width over all heads: a head is `d_out // num_heads` wide.",
            "`nn.ModuleList([SingleHeadAttention(d_in, head_dim) for _ in range(num_heads)])` is a list of heads.",
            "Join with `torch.cat(..., dim=-1)`, then mix with `nn.Linear(d_out, d_out, bias=False)`.",
        ),
    ),
)
