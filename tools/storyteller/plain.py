"""Grouped-query attention with a cache, and rotary positions if wanted, as it is often written: the right code."""

import torch
from torch import nn


def rotate(x, start):  # (b, h, t, d): position start and those after it
    rates = 100.0 ** (-torch.arange(0, x.shape[3], 2) / x.shape[3])
    angles = torch.arange(start, start + x.shape[2])[:, None] * rates  # (t, d / 2)
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class PlainAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads=2, rotary=False):
        super().__init__()
        self.rotary = rotary
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_out // num_heads
        self.cache_sizes = num_kv_heads, self.head_dim, self.head_dim
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):  # (b, t, d_in) -> (b, t, d_out)
        b, t, _ = x.shape
        start = 0 if cache is None else cache.length
        queries = self.q_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.k_proj(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2)
        values = self.v_proj(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2)
        if self.rotary:
            queries, keys = rotate(queries, start), rotate(keys, start)
        if cache is not None:
            keys, values = cache.append(keys, values)
        keys = keys.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        values = values.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        hidden = torch.ones(t, start + t, dtype=torch.bool).triu(diagonal=1 + start)
        scores = scores.masked_fill(hidden, -torch.inf)
        weights = scores.softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))
