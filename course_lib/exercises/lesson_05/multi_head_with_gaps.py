"""Multi-head attention with gaps."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MultiHeadWithGaps(nn.Module):
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
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # -> (b, h, t, d)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)  # (b, h, q, k)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = weights @ values  # (b, h, t, d)
        # (b, t, h * d)
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))


EXERCISE = ModuleExercise(
    MultiHeadWithGaps,
    title="Multi-head attention with gaps",
    difficulty=2,
    minutes=7,
    prompt=(
        "Multi-head attention as in the lesson, causal: a token may attend to itself and to those before it. Fill in "
        "the gaps, each written `...`. The comment beside a line says which shape it gives. `hidden` is True where a "
        "query must not look at a key. The next exercise asks for all of it."
    ),
    hints=(
        "`per_head` is the shape that `view` gives: the width of all heads becomes two axes.",
        "After `view` the axes are (batch, token, head, head_dim). Which two have to change places?",
        "On the way back they change places again, and `reshape` joins head and head_dim.",
    ),
    stub="""\
class MultiHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, ...  # the width of one head
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, ..., ...)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # -> (b, h, t, d)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        scores = (queries * self.head_dim**-0.5) @ ...  # (b, h, q, k)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        weights = scores.masked_fill(..., -torch.inf).softmax(dim=...)
        context = weights @ values  # (b, h, t, d)
        return self.out_proj(...)  # (b, t, h * d) -> (b, t, d_out)""",
)
