"""The learner's own causal head, which the next lessons wrap and split."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MyCausalHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        # (batch, query, key)
        scores = (queries / queries.shape[-1] ** 0.5) @ keys.transpose(1, 2)
        num_tokens = x.shape[1]
        # (query, key)
        keep = torch.ones(num_tokens, num_tokens, device=x.device).tril().bool()
        weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
        return weights @ values


EXERCISE = ModuleExercise(
    MyCausalHead,
    title="My causal head",
    difficulty=2,
    minutes=5,
    prompt="Your head from lesson 01, with a causal mask that is as large as the input has tokens.",
    any_device=True,
    hints=(
        "`torch.ones(num_tokens, num_tokens, device=x.device).tril().bool()` is the mask.",
        "`masked_fill` returns a new tensor: use what it returns.",
    ),
)
