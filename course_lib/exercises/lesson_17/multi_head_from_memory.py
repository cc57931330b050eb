"""Multi-head attention from memory."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MultiHeadFromMemory(nn.Module):
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
        # (b, t, m) -> (b, t, h, d) -> (b, h, t, d)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        later = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        # (b, h, t, d)
        context = scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    MultiHeadFromMemory,
    title="Multi-head attention, from memory",
    difficulty=5,
    minutes=5,
    prompt=(
        "Write causal multi-head attention without looking anything up: `forward(x)` takes (batch, token, d_in) and "
        "gives back (batch, token, d_out). A token may attend to itself and to those before it; `d_out` is the width "
        "over all heads, and an output projection, (d_out, d_out), mixes them. Any names and any layout of the weights "
        "pass, with biases or without."
    ),
    hints=(
        "List the steps first: project, split into heads, score, hide, softmax, mix, merge, project.",
        "After each line, which axes does the tensor have? The heads are split off the last axis, and then exchanged "
        "with the tokens.",
        "`view(batch, num_tokens, num_heads, head_dim).transpose(1, 2)` splits; the product with "
        "`keys.transpose(2, 3)` scores; `transpose(1, 2).reshape(batch, num_tokens, -1)` merges.",
    ),
    stub="""\
class MultiHeadFromMemory(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # your lines, here and above""",
    any_layout=True,
)
