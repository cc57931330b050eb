"""Grouped-query attention with gaps."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class GroupedQueryWithGaps(nn.Module):
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
        queries = self.q_proj(x).view(*x.shape[:2], self.num_heads, self.head_dim)
        keys = self.k_proj(x).view(*x.shape[:2], self.num_kv_heads, self.head_dim)
        values = self.v_proj(x).view(*x.shape[:2], self.num_kv_heads, self.head_dim)
        queries, keys, values = (one.transpose(1, 2) for one in (queries, keys, values))
        group = self.num_heads // self.num_kv_heads  # query heads per kv head
        # (b, kv_head, t, d) -> (b, head, t, d)
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        context = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    GroupedQueryWithGaps,
    title="Grouped-query attention with gaps",
    difficulty=2,
    minutes=7,
    prompt=(
        "Multi-head attention becomes grouped-query attention in four places: the widths of two projections, the "
        "number of heads that they are split into, and one line that gives each query head its kv head. Seven "
        "gaps, each written `...`: fill them in. The next exercise asks for all of it."
    ),
    hints=(
        "Keys and values have num_kv_heads heads, and each of them is head_dim wide.",
        "`group` query heads share one kv head: how many times is each kv head needed?",
        "`repeat_interleave(group, dim=1)` repeats each head in its place: 0, 0, 1, 1.",
    ),
    stub="""\
class GroupedQueryWithGaps(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, ..., bias=False)
        self.v_proj = nn.Linear(d_in, ..., bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        queries = self.q_proj(x).view(*x.shape[:2], self.num_heads, self.head_dim)
        keys = self.k_proj(x).view(*x.shape[:2], ..., self.head_dim)
        values = self.v_proj(x).view(*x.shape[:2], ..., self.head_dim)
        queries, keys, values = (one.transpose(1, 2) for one in (queries, keys, values))
        group = ...  # query heads per kv head
        keys = ...  # (b, kv_head, t, d) -> (b, head, t, d)
        values = ...
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        context = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))""",
    kv_heads="any",
)
