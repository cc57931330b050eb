"""Grouped-query attention as a module."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise

from .share_heads import share_heads


class GroupedQuery(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, -1, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, h, t, d)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)  # (b, g, t, d)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        keys = share_heads(keys, self.num_heads)  # (b, g, t, d) -> (b, h, t, d)
        values = share_heads(values, self.num_heads)
        keep = torch.ones(num_tokens, num_tokens, device=x.device).tril().bool()
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)  # (b, h, q, k)
        context = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
        # (b, h, t, d) -> (b, t, h * d)
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    GroupedQuery,
    title="Grouped-query attention as a module",
    difficulty=4,
    minutes=15,
    prompt=(
        "The whole module, causal, from an empty class. `d_out` is the width over all query heads. There are "
        "`num_kv_heads` heads of keys and of values, each d_out // num_heads wide, and consecutive query heads share "
        "one. Call the projections `q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias. `share_heads` of "
        "exercise 2 may help; it copies keys and values. No peeking at the gaps above."
    ),
    hints=(
        "It is `MultiHead` from the exercises of lesson 05 with narrower `k_proj` and `v_proj`: "
        "num_kv_heads * head_dim.",
        "Keys and values are cut into num_kv_heads heads, queries into num_heads; all heads are head_dim wide.",
        "Before the scores, `share_heads` brings keys and values to num_heads.",
    ),
    kv_heads="any",
    biases=False,
)
