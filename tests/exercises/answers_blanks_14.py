"""Answers to the blanks of lesson 14, right and wrong, as learners write them."""

import torch
from torch import nn


def intensity_step_by_step(query_len, key_len, num_heads, num_kv_heads, head_dim, bytes_per_number):
    flops = 0
    for _ in ("scores", "context"):
        flops += 2 * num_heads * query_len * key_len * head_dim
    numbers = num_heads * query_len * head_dim  # queries
    numbers += num_kv_heads * key_len * head_dim  # keys
    numbers += num_kv_heads * key_len * head_dim  # values
    numbers += num_heads * query_len * head_dim  # context
    return flops / (numbers * bytes_per_number)


def intensity(q, k, h, g, d, size, flops=4):
    return flops * h * q * k * d / (size * (2 * h * q * d + 2 * g * k * d))


def step_by_maximum(largest, total, context, scores, values):
    new = torch.where(scores.max(dim=1).values > largest, scores.max(dim=1).values, largest)
    old_share = torch.exp(largest - new)
    weights = torch.exp(scores - new.unsqueeze(1))
    total = total * old_share + weights.sum(1)
    context = context * old_share.unsqueeze(1) + weights @ values
    return new, total, context


def step_by_loop(largest, total, context, scores, values):
    rows = []
    for m, t, c, row in zip(largest, total, context, scores, strict=True):
        for score, value in zip(row, values, strict=True):
            new = max(m, score)
            t = t * torch.exp(m - new) + torch.exp(score - new)
            c = c * torch.exp(m - new) + torch.exp(score - new) * value
            m = new
        rows.append((m, t, c))
    return [torch.stack(each) for each in zip(*rows, strict=True)]


def step_by_joining(largest, total, context, scores, values):
    new = torch.cat([largest[:, None], scores], dim=1).max(1).values
    every = torch.cat([largest[:, None], scores], 1).sub(new[:, None]).exp()
    return new, every[:, 0] * total + every[:, 1:].sum(1), every[:, :1] * context + every[:, 1:] @ values


def step_by_einsum(largest, total, context, scores, values):
    new = torch.maximum(largest, torch.amax(scores, 1))
    shrink, weights = (largest - new).exp(), (scores.T - new).exp()
    return new, total * shrink + weights.sum(0), (context.T * shrink).T + torch.einsum("kq,kd->qd", weights, values)


def step(m, t, c, s, v, shrink_total=True, shrink_context=True):
    new = torch.maximum(m, s.max(1)[0])
    shrink, weights = (m - new).exp(), (s - new[:, None]).exp()
    t = t * shrink if shrink_total else t
    c = c * shrink[:, None] if shrink_context else c
    return new, t + weights.sum(1), c + weights @ v


class TiledByIndex(nn.Module):
    def __init__(self, d_in, d_out, num_heads, size=5):
        super().__init__()
        self.num_heads, self.size = num_heads, size
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def heads(self, x):
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)

    def step(self, state, scores, values):
        m, t, c = state
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - new).exp(), (scores - new).exp()
        return new, t * shrink + weights.sum(-1, keepdim=True), c * shrink + weights @ values

    def forward(self, x):
        q, k, v = (self.heads(proj(x)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        out = torch.zeros_like(q)
        for first in range(0, x.shape[1], self.size):
            rows = slice(first, first + self.size)
            block = q[:, :, rows] / q.shape[-1] ** 0.5
            state = block.new_full((*block.shape[:3], 1), -torch.inf), block.new_zeros(1), block.new_zeros(1)
            for start in range(0, first + 1, self.size):
                tile = slice(start, start + self.size)
                scores = block @ k[:, :, tile].mT
                if start == first:
                    keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
                    scores = scores.masked_fill(~keep, -torch.inf)
                state = self.step(state, scores, v[:, :, tile])
            out[:, :, rows] = state[2] / state[1]
        return self.out_proj(out.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class TiledByMerging(TiledByIndex):
    def step(self, state, scores, values):
        m, t, c = state
        lse = scores.logsumexp(-1, keepdim=True)
        old = torch.where(m.isinf(), m, m + torch.log(t.clamp(min=1e-30)))
        new = torch.logaddexp(old, lse)
        mixed = (old - new).exp() * c + (lse - new).exp() * (scores.softmax(-1) @ values)
        return new, torch.ones_like(new), mixed


class OwnLargest(TiledByIndex):
    def step(self, state, scores, values):
        m, t, c = state
        new = scores.amax(-1, keepdim=True)
        shrink, weights = (m - new).exp(), (scores - new).exp()
        return new, t * shrink + weights.sum(-1, keepdim=True), c * shrink + weights @ values


class DividedAtOnce(TiledByIndex):
    def step(self, state, scores, values):
        m, t, c = super().step(state, scores, values)
        return m, t, c / t


class MeanOfTiles(TiledByIndex):
    def step(self, state, scores, values):
        m, t, c = state
        return m, t + 1, c + scores.softmax(-1) @ values


RIGHT = {
    "arithmetic_intensity": [
        intensity,
        intensity_step_by_step,
        lambda q, k, h, g, d, size: 2 * h * q * k / (size * (h * q + g * k)),
        lambda *a: torch.tensor(intensity(*a), dtype=torch.float64),
    ],
    "online_step": [step_by_maximum, step_by_loop, step_by_joining, step_by_einsum],
    "MyTiledAttention": [TiledByIndex, TiledByMerging],
}

WRONG = {
    "arithmetic_intensity": [
        (lambda *a: int(intensity(*a)), "it should be"),
    ],
    "online_step": [
        (lambda *a: step(*a)[1:], "it should be 3"),
    ],
    "MyTiledAttention": [
        (MeanOfTiles, "it should be"),
        (OwnLargest, "nan"),
        (DividedAtOnce, "it should be"),
    ],
}
