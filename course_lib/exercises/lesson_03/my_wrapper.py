"""The wrapper of the learner's own heads."""

import torch
from torch import nn

from course_lib.exercises.lesson_02.my_causal_head import MyCausalHead
from course_lib.exercises.module_exercise import ModuleExercise


class MyWrapper(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        head_dim = d_out // num_heads
        heads = [MyCausalHead(d_in, head_dim) for _ in range(num_heads)]
        self.heads = nn.ModuleList(heads)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        contexts = [head(x) for head in self.heads]  # num_heads x (b, token, head_dim)
        joined = torch.cat(contexts, dim=-1)  # (batch, token, d_out)
        return self.out_proj(joined)


EXERCISE = ModuleExercise(
    MyWrapper,
    title="The wrapper",
    difficulty=2,
    minutes=5,
    prompt=(
        "Multi-head attention as a list of your own causal heads: run each head on x, join what they give, mix with "
        "the output projection. Call the list `heads` and the projection `out_proj`, without bias; `d_out` is the "
        "width over all heads."
    ),
    hints=(
        "A head is `d_out // num_heads` wide. A list comprehension runs all heads: `[head(x) for head in self.heads]`.",
        "`torch.cat(..., dim=-1)` joins, then comes `self.out_proj`.",
    ),
)
