"""Multi-query attention as a class."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MyMultiQueryAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, self.head_dim, bias=False)  # one head for all
        self.v_proj = nn.Linear(d_in, self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        # (b, h, t, d)
        queries = self.q_proj(x).unflatten(2, (-1, self.head_dim)).transpose(1, 2)
        keys = self.k_proj(x)[:, None]  # (b, t, d) -> (b, 1, t, d)
        values = self.v_proj(x)[:, None]
        # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        hidden = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
        context = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values
        # (b, h, t, d) -> (b, t, h * d)
        return self.out_proj(context.transpose(1, 2).flatten(2))


EXERCISE = ModuleExercise(
    MyMultiQueryAttention,
    title="Multi-query attention as a class",
    difficulty=3,
    minutes=5,
    prompt=(
        "Write the class `MyMultiQueryAttention(d_in, d_out, num_heads)`, an "
        "`nn.Module` whose `forward(x)` takes (batch, token, d_in) and returns (batch, token, d_out). All heads "
        "share one head of keys and one of values; a token may attend to itself and to those before it. `d_out` is "
        "the width over all query heads, and an output projection, (d_out, d_out), mixes them. Queries, keys and "
        "values are each a projection of `x` itself, without a layer in front of all three. Any names and any layout "
        "of the weights pass; under the lesson's names each must be what its name says. Biases may be there or not."
    ),
    hints=(
        "List the steps first: project, split the queries, score, hide, softmax, mix, merge, project.",
        "Which of the projections are `d_out` wide, and which are one head wide?",
        "Keys and values are (b, 1, t, d), the queries (b, h, t, d): the product broadcasts the axis of size 1.",
    ),
    stub="class MyMultiQueryAttention(nn.Module): ...",
    kv_heads="one",
)
