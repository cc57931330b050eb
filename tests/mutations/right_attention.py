"""Grouped-query attention, written as many people write it, for mistakes to be planted into."""

import torch
from torch import nn


class RightAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.h, self.g, self.d = num_heads, num_kv_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.d, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.d, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (b, t, d_in) -> (b, t, d_out)
        b, t, _ = x.shape
        queries = self.q_proj(x).view(b, t, self.h, self.d).transpose(1, 2)
        keys = self.k_proj(x).view(b, t, self.g, self.d).transpose(1, 2)
        values = self.v_proj(x).view(b, t, self.g, self.d).transpose(1, 2)
        keys = keys.repeat_interleave(self.h // self.g, dim=1)
        values = values.repeat_interleave(self.h // self.g, dim=1)
        scores = queries @ keys.transpose(2, 3) / self.d**0.5
        hidden = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)  # the future
        scores = scores.masked_fill(hidden, -torch.inf)
        weights = scores.softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))
