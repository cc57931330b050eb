"""The module of the exercise before, with its mistake corrected."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MendedC(nn.Module):
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
        share = self.num_heads // self.num_kv_heads
        kv_head = (batch, num_tokens, self.num_kv_heads, 1, self.head_dim)
        # (b, t, g, share, d) -> (b, g, share, t, d)
        queries = self.q_proj(x).view(*kv_head[:3], share, -1).permute(0, 2, 3, 1, 4)
        keys = self.k_proj(x).view(kv_head).permute(0, 2, 3, 1, 4)
        values = self.v_proj(x).view(kv_head).permute(0, 2, 3, 1, 4)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        scores = queries * self.head_dim**-0.5 @ keys.transpose(3, 4)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = (weights @ values).permute(0, 3, 1, 2, 4)
        return self.out_proj(context.reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    MendedC,
    title="Fix patient C",
    difficulty=2,
    minutes=4,
    prompt="The same with patient C.",
    hints=(
        "Copy the class and change one line.",
        "Softmax runs over the keys of a row, so that each row sums to 1.",
        "The keys are the last axis, however many there are: `softmax(dim=-1)`.",
    ),
    kv_heads="any",
)
