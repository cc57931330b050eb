"""Answers to the exercises of lesson 06, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn


def ask_by_loop(queries, keys, values):
    heads = []
    for query in queries.unbind(1):
        weights = (query @ keys.transpose(1, 2) / query.shape[-1] ** 0.5).softmax(-1)
        heads.append(weights @ values)
    return torch.stack(heads, 1)


def ask_folded(queries, keys, values):
    batch, heads, num_tokens, width = queries.shape
    folded = queries.reshape(batch, heads * num_tokens, width)
    return F.scaled_dot_product_attention(folded, keys, values).view(batch, heads, num_tokens, width)


def ask(queries, keys, values, scale=None, dim=-1):
    scores = torch.einsum("bhqd,bkd->bhqk", queries, keys) * (scale or queries.shape[-1] ** -0.5)
    return torch.einsum("bhqk,bkd->bhqd", scores.softmax(dim), values)


def kv_by_loop(query_head, num_heads, num_kv_heads):
    shared = [kv for kv in range(num_kv_heads) for _ in range(num_heads // num_kv_heads)]
    return shared[query_head]


def share_by_loop(keys, num_heads):
    size = num_heads // keys.shape[1]
    return torch.stack([keys[:, head // size] for head in range(num_heads)], 1)


class Grouped(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def share(self, x):
        return x.repeat_interleave(self.num_heads // self.num_kv_heads, 1)

    def weigh(self, scores):
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1)

    def forward(self, x):
        cut = (*x.shape[:2], -1, self.head_dim)
        queries = self.q_proj(x).view(cut).transpose(1, 2)
        keys = self.share(self.k_proj(x).view(cut).transpose(1, 2))
        values = self.share(self.v_proj(x).view(cut).transpose(1, 2))
        weights = self.weigh(queries @ keys.transpose(2, 3) / self.head_dim**0.5)
        return self.finish((weights @ values).transpose(1, 2).flatten(2))

    def finish(self, merged):
        return self.out_proj(merged)


class GroupedFused(Grouped):
    def forward(self, x):
        cut = (*x.shape[:2], -1, self.head_dim)
        queries, keys, values = (p(x).view(cut).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
        return self.out_proj(context.transpose(1, 2).flatten(2))


class GroupedByEinsum(Grouped):
    def forward(self, x):
        batch, num_tokens, _ = x.shape
        queries = self.q_proj(x).view(batch, num_tokens, self.num_kv_heads, -1, self.head_dim)
        keys = self.k_proj(x).view(batch, num_tokens, self.num_kv_heads, self.head_dim)
        values = self.v_proj(x).view(batch, num_tokens, self.num_kv_heads, self.head_dim)
        scores = torch.einsum("bqgnd,bkgd->bgnqk", queries, keys) * self.head_dim**-0.5
        context = torch.einsum("bgnqk,bkgd->bqgnd", self.weigh(scores), values)
        return self.out_proj(context.flatten(2))


class Tiled(Grouped):
    def share(self, x):
        return x.repeat(1, self.num_heads // self.num_kv_heads, 1, 1)


class FirstOnly(Grouped):
    def share(self, x):
        return x[:, :1].expand(-1, self.num_heads, -1, -1)


class NotCausal(Grouped):
    def weigh(self, scores):
        return scores.softmax(-1)


class MaskedAfterwards(Grouped):
    def weigh(self, scores):
        return scores.softmax(-1).tril()


class NothingBack(Grouped):
    def finish(self, merged):
        self.out_proj(merged)


class OverQueries(Grouped):
    def weigh(self, scores):
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-2)


class NotShared(Grouped):
    def share(self, x):
        return x


RIGHT = {
    "multi_query": [ask_by_loop, ask_folded, ask],
    "kv_head_of": [kv_by_loop, lambda h, n, kv: h * kv // n, lambda h, n, kv: int(h / (n / kv) + 1e-9)],
    "share_heads": [
        share_by_loop,
        lambda k, n: torch.repeat_interleave(k, n // k.shape[1], dim=1),
        lambda k, n: k[:, :, None].expand(-1, -1, n // k.shape[1], -1, -1).flatten(1, 2),
    ],
    "cache_bytes": [
        lambda t, n, g, d, size: t * n * (g * d + g * d) * size,
        lambda t, n, g, d, size: sum(2 * t * g * d * size for _ in range(n)),
        lambda t, n, g, d, size: torch.tensor(2 * t * n * g * d * size),
    ],
    "GroupedQuery": [Grouped, GroupedFused, GroupedByEinsum],
}

WRONG = {
    "multi_query": [
        (lambda q, k, v: ask(q, k, v, 1.0), "missing-scale"),
        (lambda q, k, v: ask(q, k, v, (q.shape[1] * q.shape[3]) ** -0.5), "wrong-scale"),
        (lambda q, k, v: ask(q, v, v), "scores-from-values"),
        (lambda q, k, v: ask(q, k, v, dim=-2), "softmax-wrong-axis", "over the queries"),
        (lambda q, k, v: ask(q, k, v, dim=1), "softmax-wrong-axis", "over the heads"),
        (lambda q, k, v: ask(q[:, :1], k, v).expand(-1, q.shape[1], -1, -1), "heads-share-scores"),
        (lambda q, k, v: ask(q, k, v).transpose(1, 2).flatten(2), "one step too far"),
        (lambda q, k, v: q @ k.transpose(1, 2) @ v, "stopped", "RuntimeError"),
    ],
    "kv_head_of": [
        (lambda h, n, kv: h % kv, "kv-heads-tiled"),
        (lambda h, n, kv: 0, "kv-head-zero-only"),
        (lambda h, n, kv: h // kv, "not by their size"),
        (lambda h, n, kv: h * kv / n, "a fraction"),
        (lambda h, n, kv: h * kv // n + 1, "counted from 1"),
        (lambda h, n, kv: kv - 1 - h * kv // n, "counted from the end"),
        (lambda h, n, kv: str(h), "it should be a number"),
    ],
    "share_heads": [
        (lambda k, n: k.repeat(1, n // k.shape[1], 1, 1), "kv-heads-tiled"),
        (lambda k, n: torch.cat([k] * (n // k.shape[1]), 1), "kv-heads-tiled"),
        (lambda k, n: k[:, :1].repeat(1, n, 1, 1), "kv-head-zero-only"),
        (lambda k, n: k.repeat_interleave(n // k.shape[1], 2), "tokens that are repeated"),
        (lambda k, n: k.repeat_interleave(n, 1), "num_heads times"),
        (lambda k, n: k.mean(1, keepdim=True).repeat(1, n, 1, 1), "heads-averaged"),
        (lambda k, n: torch.stack([k] * (n // k.shape[1]), 2), "on an axis of their own"),
        (lambda k, n: k.expand(-1, n, -1, -1), "stopped"),
    ],
    "cache_bytes": [
        (lambda t, n, g, d, size: t * n * g * d * size, "the keys without the values"),
        (lambda t, n, g, d, size: 2 * t * n * g * d, "numbers, not of bytes"),
        (lambda t, n, g, d, size: 2 * t * g * d * size, "a single layer"),
        (lambda t, n, g, d, size: 2 * t * n * g * d * size * 8, "in bits"),
        (lambda t, n, g, d, size: 3 * t * n * g * d * size, "the queries are used once"),
        (lambda t, n, g, d, size: 2 * t * n * d * size, "however many there are"),
        (lambda t, n, g, d, size: 2 * t * n * g * d * size / 1024, "it should be"),
    ],
    "GroupedQuery": [
        (Tiled, "kv-heads-tiled"),
        (FirstOnly, "kv-head-zero-only"),
        (NotCausal, "no-causal-mask"),
        (MaskedAfterwards, "mask-after-softmax"),
        (NothingBack, "returns-none"),
        (OverQueries, "softmax-wrong-axis"),
        (NotShared, "stopped", "weights = self.weigh"),
    ],
}
