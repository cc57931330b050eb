"""Attention that can be changed from outside."""

# pyright: reportGeneralTypeIssues=false
# whoever sets `edit` to a function does it from outside

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MyOpenAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.head_dim = d_out // num_heads
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        self.edit = None  # or a function of queries, keys and values

    def to_heads(self, x):  # (b, t, h * d) -> (b, h, t, d)
        return x.unflatten(2, (-1, self.head_dim)).transpose(1, 2)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries = self.to_heads(self.q_proj(x))
        # a copy for each head, so that one head's can be changed alone
        shared = self.num_heads // self.num_kv_heads
        keys = self.to_heads(self.k_proj(x)).repeat_interleave(shared, dim=1)
        values = self.to_heads(self.v_proj(x)).repeat_interleave(shared, dim=1)
        if self.edit:
            queries, keys, values = self.edit(queries, keys, values)
        # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        hidden = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
        context = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))


EXERCISE = ModuleExercise(
    MyOpenAttention,
    title="Attention that can be changed from outside",
    difficulty=3,
    minutes=6,
    prompt=(
        "Causal grouped-query attention with `q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias; consecutive "
        "query heads share a kv head. It has an attribute `edit`, None at first. If somebody sets it to a function, "
        "forward calls it with queries, keys and values, each (batch, head, token, head_dim) with as many heads as "
        "there are queries, and goes on with the three that it returns. The check leaves it at None; the lesson's "
        "proof tries it."
    ),
    hints=(
        "It is the class of lesson 06 with a copy of keys and values for each head, and one more line.",
        "`keys.repeat_interleave(num_heads // num_kv_heads, dim=1)` gives each query head its copy.",
        "`if self.edit: queries, keys, values = self.edit(queries, keys, values)`, before the scores.",
    ),
    stub="class MyOpenAttention(nn.Module): ...",
    kv_heads="any",
    wrong="""
masked_fill(hidden, -torch.inf) => masked_fill(hidden, 0.0)
    attention whose mask fills with 0 [mask-with-zero]
keys = self.to_heads(self.k_proj(x)).repeat_interleave(shared, dim=1) => keys = self.to_heads(self.k_proj(x)).repeat(1, shared, 1, 1)
    attention whose heads get the keys of other groups
    ? Which query heads share a kv head: neighbours, or every second one?
(queries * self.head_dim**-0.5) => queries
    attention without the scale [missing-scale]
""",
)
