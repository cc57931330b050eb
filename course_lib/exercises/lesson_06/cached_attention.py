"""Attention with a cache from an empty cell."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class CachedAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        # (batch, token, d_in), keys and values -> (batch, token, d_out), the new cache
        batch, num_new, _ = x.shape
        per_head = (batch, num_new, self.num_heads, self.head_dim)
        # (b, n, m) -> (b, n, h, d) -> (b, h, n, d)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        if cache is not None:
            # (b, h, past, d) and (b, h, n, d) -> (b, h, past + n, d)
            keys = torch.cat([cache[0], keys], dim=2)
            values = torch.cat([cache[1], values], dim=2)
        num_keys = keys.shape[2]
        keep = torch.ones(num_new, num_keys, dtype=torch.bool, device=x.device)
        keep = keep.tril(num_keys - num_new)
        # (b, h, n, past + n)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        context = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
        output = self.out_proj(context.transpose(1, 2).reshape(batch, num_new, -1))
        return output, (keys, values)


EXERCISE = ModuleExercise(
    CachedAttention,
    title="From memory, 20 minutes: attention with a cache",
    difficulty=5,
    minutes=20,
    prompt=(
        "An empty cell, and nothing to look up. Write the class `CachedAttention(d_in, d_out, num_heads)`, causal "
        "multi-head attention as an `nn.Module` with `forward(x, cache=None) -> (output, cache)`. `x` is "
        "(batch, token, d_in) and `output` (batch, token, d_out); an output projection, (d_out, d_out), mixes the "
        "heads. Queries, keys and values are each a projection of `x` itself, without a layer in front of all three. "
        "A text comes in pieces of one token or more: the first call has no cache, and each later call gets "
        "the cache that the call before returned. All pieces together must give what one pass over the whole text "
        "gives: a token attends to everything before it, in this piece and in earlier ones. What the cache looks like "
        "is up to you. Everything must be in it, because the check runs two texts in turn on the same module. Any "
        "names and any layout of the weights pass; biases may be there or not."
    ),
    hints=(
        "What does a new token need from the old ones? Their keys and values. Are their queries ever needed again?",
        "Project the new tokens only, and split them into heads. If there is a cache, join along the tokens: "
        "`torch.cat([cache[0], keys], dim=2)`. Return `(keys, values)` as the new cache.",
        "The mask has a row per new token and a column per token so far. The last row is the last token: "
        "`torch.ones(num_new, num_keys, dtype=torch.bool, device=x.device).tril(num_keys - num_new)`.",
    ),
    stub="class CachedAttention(nn.Module): ...",
    any_layout=True,
    in_steps=True,
)
