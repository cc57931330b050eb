"""Multi-head attention of the learner's own."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MyMultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, self.num_heads, self.head_dim)
        # (batch, head, token, head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        keep = torch.ones(num_tokens, num_tokens, device=x.device).tril().bool()
        # (batch, head, query, key)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2)  # (batch, token, head, head_dim)
        return self.out_proj(context.reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    MyMultiHeadAttention,
    title="Multi-head attention",
    difficulty=3,
    minutes=6,
    prompt=(
        "The five parts as a module, causal; `d_out` is the width over all heads. The check takes any names and any "
        "layout of the parameters. The lessons use `q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias, and each "
        "of these must be what its name says."
    ),
    hints=(
        "Four lines: scores, attention weights, context with the tokens in front, merged and projected.",
        "Scale by the root of `self.head_dim`, and exchange the last two axes of the keys.",
        "`weights @ values`, then `transpose(1, 2)`, then `reshape(batch, num_tokens, -1)`, then `self.out_proj`.",
    ),
    stub="class MyMultiHeadAttention(nn.Module): ...",
)
