"""Pieces that newer files of the bank share: projections, the split into heads, the softmax and rotations."""

import torch
from torch import nn


class Parts(nn.Module):
    """Projections without biases, in a layout (batch, head, token, head_dim)."""

    def __init__(self, d_in=10, heads=3, head_dim=4, kv_heads=None, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.heads, self.head_dim, self.kv_heads = heads, head_dim, kv_heads or heads
        self.q_proj = nn.Linear(d_in, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(d_in, self.kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, self.kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, d_in, bias=False)

    def split(self, t):
        return t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def qkv(self, x):
        return self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))

    def merge(self, context):
        return self.o_proj(context.transpose(1, 2).flatten(2))

    def scores(self, q, k):
        return (q * self.head_dim**-0.5) @ k.transpose(-2, -1)

    def attend(self, scores, v):
        return self.merge(causal_softmax(scores) @ v)


def causal_softmax(scores):
    """Weights (..., query, key); the queries are the last of the keys' tokens."""
    queries, keys = scores.shape[-2:]
    hidden = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).triu(keys - queries + 1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def angles(num_tokens, width, like, start=0, base=10000.0):
    """(token, width / 2)."""
    rates = base ** (-torch.arange(0, width, 2, dtype=like.dtype, device=like.device) / width)
    return torch.outer(torch.arange(start, start + num_tokens, dtype=like.dtype, device=like.device), rates)


def turned(t, start=0, base=10000.0):
    """Rotary positions in halves, for (..., token, width)."""
    angle = angles(t.shape[-2], t.shape[-1], t, start, base)
    cos, sin = angle.cos(), angle.sin()
    a, b = t.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def turned_in_pairs(t, start=0, base=10000.0):
    """Rotary positions in neighbouring pairs, for (..., token, width)."""
    angle = angles(t.shape[-2], t.shape[-1], t, start, base)
    a, b = t[..., 0::2], t[..., 1::2]
    return torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2)


def in_pieces(step, x, prompt=3):
    """The prompt at once, then one token after the other: step(tokens, place of the first) -> rows of the output."""
    rows = [step(x[:, :prompt], 0)]
    rows += [step(x[:, t : t + 1], t) for t in range(prompt, x.shape[1])]
    return torch.cat(rows, dim=1)
