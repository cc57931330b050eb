"""The module of the exercise before, with its mistake corrected."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MendedB(nn.Module):
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
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        scores = queries * self.head_dim**-0.5 @ keys.transpose(2, 3)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2)
        return self.out_proj(context.reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    MendedB,
    title="Fix patient B",
    difficulty=2,
    minutes=4,
    prompt="Copy patient B and correct its mistake, and nothing else.",
    hints=(
        "Copy the class and change one line.",
        "What is hidden must be hidden before softmax divides by the sum of the row.",
        "`scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)`.",
    ),
)
