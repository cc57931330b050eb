"""Multi-query attention as a module."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MultiQuery(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, self.num_heads, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, h, t, d)
        # (b, t, d) -> (b, 1, t, d)
        keys, values = self.k_proj(x)[:, None], self.v_proj(x)[:, None]
        keep = torch.ones(num_tokens, num_tokens, device=x.device).tril().bool()
        # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        context = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
        # (b, h, t, d) -> (b, t, h * d)
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    MultiQuery,
    title="Multi-query attention as a module",
    difficulty=3,
    minutes=10,
    prompt=(
        "The whole module, causal. `d_out` is the width over all query heads and a multiple of `num_heads`; there is "
        "one head of keys and one of values, each `d_out // num_heads` wide. Call the projections `q_proj`, `k_proj`, "
        "`v_proj` and `out_proj`, without bias."
    ),
    hints=(
        "It is `MultiHead` from the exercises of lesson 05 with a `k_proj` and a `v_proj` that are one head wide.",
        "Only the queries are split into heads. Keys and values get an axis of one head: `self.k_proj(x)[:, None]`.",
        "Scores are (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k). Mask, softmax, merge and `out_proj` are as ever.",
    ),
    kv_heads="one",
    biases=False,
)
