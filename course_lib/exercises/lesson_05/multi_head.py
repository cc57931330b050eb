"""Multi-head attention with split weights."""

import torch
from torch import nn

from course_lib.exercises.lesson_05.scores_by_head import scores_by_head
from course_lib.exercises.module_exercise import ModuleExercise


class MultiHead(nn.Module):
    def __init__(self, d_in, d_out, num_heads, head_dim):
        super().__init__()
        self.num_heads, self.head_dim, inner = num_heads, head_dim, num_heads * head_dim
        self.q_proj = nn.Linear(d_in, inner, bias=False)
        self.k_proj = nn.Linear(d_in, inner, bias=False)
        self.v_proj = nn.Linear(d_in, inner, bias=False)
        self.out_proj = nn.Linear(inner, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, self.num_heads, self.head_dim)
        # (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        keep = torch.ones(num_tokens, num_tokens, device=x.device).tril().bool()
        # (b, h, q, k)
        scores = scores_by_head(queries, keys).masked_fill(~keep, -torch.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ values).transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
        # (b, t, h * d) -> (b, t, d_out)
        return self.out_proj(context.reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    MultiHead,
    title="Multi-head attention with split weights",
    difficulty=4,
    minutes=15,
    prompt=(
        "The five parts of the lesson as one module, causal, with one change: the width of a head is an argument of "
        "its own, as in many recent models, and `num_heads * head_dim` need not be `d_out`. Queries, keys and values "
        "are `num_heads * head_dim` wide, and the output projection makes `d_out` of the merged heads. Call the "
        "projections `q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias."
    ),
    hints=(
        "Four `nn.Linear` in `__init__`. In `forward`: project, cut, score, hide, weigh, mix, merge, project.",
        "`q_proj`, `k_proj` and `v_proj` are `nn.Linear(d_in, num_heads * head_dim, bias=False)`; `out_proj` leads "
        "from `num_heads * head_dim` to `d_out`. The scores are scaled by the root of `head_dim`.",
        "The mask is made for as many tokens as x has. After the mix: `transpose(1, 2)`, then "
        "`reshape(batch, num_tokens, num_heads * head_dim)`, then `out_proj`.",
    ),
    biases=False,
)
