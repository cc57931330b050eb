"""The wrapper."""

import torch
from torch import nn

from course_lib.attention import SingleHeadAttention
from course_lib.exercises.module_exercise import ModuleExercise


class Wrapper(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        head_dim = d_out // num_heads
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(SingleHeadAttention(d_in, head_dim, causal=False))
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        joined = torch.cat([head(x) for head in self.heads], dim=-1)  # (b, t, h * d)
        return self.out_proj(joined)


EXERCISE = ModuleExercise(
    Wrapper,
    title="The wrapper",
    difficulty=3,
    minutes=8,
    prompt=(
        "Multi-head attention as a list of heads that hide **nothing**: a token may attend to all tokens, as in a "
        "model that reads a whole text at once. The course's `SingleHeadAttention(d_in, d_out, causal=False)` is there "
        "for you, where `d_out` is the width of that head. Call the list `heads` and the output projection "
        "`out_proj`, without bias; the `d_out` of your class is the width over all heads."
    ),
    hints=(
        "`d_out` is the width over all heads: a head is `d_out // num_heads` wide.",
        "`nn.ModuleList([SingleHeadAttention(d_in, head_dim, causal=False) for _ in range(num_heads)])` is a list "
        "of heads that PyTorch knows of; in a plain list their weights would not be trained.",
        "Join with `torch.cat(..., dim=-1)`, then mix with `nn.Linear(d_out, d_out, bias=False)`.",
    ),
    causal=False,
    biases=False,
)
