"""Multi-query attention with a cache, from memory."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MultiQueryWithCache(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        # (batch, token, d_in), keys and values -> (batch, token, d_out), the new cache
        batch, num_new, _ = x.shape
        per_head = (batch, num_new, self.num_heads, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, h, n, d)
        # one head for all: (b, n, d) -> (b, 1, n, d)
        keys, values = self.k_proj(x)[:, None], self.v_proj(x)[:, None]
        if cache is not None:
            # (b, 1, past, d) and (b, 1, n, d) -> (b, 1, past + n, d)
            keys = torch.cat([cache[0], keys], dim=2)
            values = torch.cat([cache[1], values], dim=2)
        num_keys = keys.shape[2]
        # (b, h, n, d) @ (b, 1, d, k) -> (b, h, n, k)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        keep = torch.ones(num_new, num_keys, dtype=torch.bool, device=x.device)
        keep = keep.tril(num_keys - num_new)
        # (b, h, n, d)
        context = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
        output = self.out_proj(context.transpose(1, 2).reshape(batch, num_new, -1))
        return output, (keys, values)


EXERCISE = ModuleExercise(
    MultiQueryWithCache,
    title="Multi-query attention with a cache, from memory",
    difficulty=5,
    minutes=6,
    prompt=(
        "Write causal multi-query attention with a cache without looking anything up: "
        "`forward(x, cache=None) -> (output, cache)`. All heads share one head of keys and one of values. A text comes "
        "in pieces of one token or more: the first call has no cache, and each later call gets what the call before "
        "gave back, a tuple of the keys and the values so far. All pieces together must give what one pass over the "
        "whole text gives. Any names and any layout of the weights pass, with biases or without."
    ),
    hints=(
        "Two things change from multi-head attention: keys and values are head_dim wide, and those of earlier tokens "
        "stand before the new ones.",
        "The mask has a row per new token and a column per token so far; its last row is the last token, so "
        "`torch.ones(num_new, num_keys).tril(num_keys - num_new)` tells what may be seen.",
    ),
    stub="""\
class MultiQueryWithCache(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()

    def forward(self, x, cache=None):
        # (batch, token, d_in), keys and values -> (batch, token, d_out), the new cache
        raise NotImplementedError  # your lines, here and above""",
    any_layout=True,
    in_steps=True,
    keeps_keys=True,
    kv_heads="one",
)
