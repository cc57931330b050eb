"""Answers to the exercises of lesson 06, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.exercises.written_answers import variant


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


def ask_from_zeros(queries, keys, values):
    """The zeros are float32, whatever the queries are."""
    batch, heads, num_tokens, width = queries.shape
    folded = queries.reshape(batch, heads * num_tokens, width)
    scores = torch.baddbmm(torch.zeros(1), folded, keys.mT, beta=0, alpha=width**-0.5)
    return (scores.softmax(-1) @ values).view(batch, heads, num_tokens, width)


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


class Shared(Grouped):
    """Multi-query attention: grouped, with one group."""

    groups = 1

    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads, self.groups)


class SharedPacked(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.h, self.d = num_heads, d_out // num_heads
        self.attn = nn.Linear(d_in, (num_heads + 2) * self.d, bias=False)
        self.proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.attn(x).split([self.h * self.d, self.d, self.d], dim=-1)
        scores = torch.einsum("bqhd,bkd->bhqk", q.view(b, t, self.h, self.d), k) / self.d**0.5
        scores = scores + torch.full((t, t), -torch.inf).triu(1)
        return self.proj(torch.einsum("bhqk,bkd->bqhd", scores.softmax(-1), v).reshape(b, t, -1))


class SharedByLoop(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        width = d_out // num_heads
        self.queries = nn.ModuleList(nn.Linear(d_in, width, bias=False) for _ in range(num_heads))
        self.key, self.value = nn.Linear(d_in, width, bias=False), nn.Linear(d_in, width, bias=False)
        self.out = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        keys, values = self.key(x), self.value(x)
        heads = [F.scaled_dot_product_attention(q(x), keys, values, is_causal=True) for q in self.queries]
        return self.out(torch.cat(heads, -1))


class SharedFolded(Shared):
    def forward(self, x):
        b, t, _ = x.shape
        queries = self.q_proj(x).view(b, t * self.num_heads, self.head_dim)  # token by token, all heads
        scores = queries @ self.k_proj(x).mT * self.head_dim**-0.5
        position = torch.arange(t).repeat_interleave(self.num_heads)
        scores = scores.masked_fill(position[:, None] < torch.arange(t), float("-inf"))
        return self.out_proj((scores.softmax(-1) @ self.v_proj(x)).view(b, t, -1))


SharedNotCausal = variant(Shared, weigh=lambda self, scores: scores.softmax(-1))


class SharedUnscaled(Shared):
    def forward(self, x):
        queries = self.q_proj(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        weights = self.weigh(queries @ self.k_proj(x)[:, None].mT)
        return self.out_proj((weights @ self.v_proj(x)[:, None]).transpose(1, 2).flatten(2))


class SharedMergedWrong(Shared):
    def forward(self, x):
        queries = self.q_proj(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        weights = self.weigh(queries @ self.k_proj(x)[:, None].mT / self.head_dim**0.5)
        return self.out_proj((weights @ self.v_proj(x)[:, None]).reshape(*x.shape[:2], -1))


SharedWithoutOut = variant(Shared, finish=lambda self, merged: merged)


class SharedOverQueries(Shared):
    def weigh(self, scores):
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-2)


class Cached(nn.Module):
    """The right one, in pieces that wrong ones replace."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
        self.out = nn.Linear(d_out, d_out)

    def cut(self, x):
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)

    def grow(self, cache, keys, values):
        return (keys, values) if cache is None else tuple(map(self.join, cache, (keys, values)))

    def join(self, old, new):
        return torch.cat([old, new], 2)

    def hide(self, scores):
        return scores.masked_fill(torch.ones_like(scores).tril(scores.shape[3] - scores.shape[2]) == 0, -torch.inf)

    def finish(self, output, cache):
        return self.out(output), cache

    def forward(self, x, cache=None):
        queries, keys, values = self.cut(self.query(x)), self.cut(self.key(x)), self.cut(self.value(x))
        keys, values = self.grow(cache, keys, values)
        weights = self.hide(queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(-1)
        return self.finish((weights @ values).transpose(1, 2).flatten(2), (keys, values))


class CachedInDict(Cached):
    def forward(self, x, cache=None):
        cache = {"past": 0, "k": [], "v": []} if cache is None else cache
        q, k, v = self.query(x), self.key(x), self.value(x)
        cache["k"].append(k)
        cache["v"].append(v)
        keys, values = self.cut(torch.cat(cache["k"], 1)), self.cut(torch.cat(cache["v"], 1))
        at = torch.arange(cache["past"], cache["past"] + x.shape[1])
        cache["past"] += x.shape[1]
        keep = at[:, None] >= torch.arange(keys.shape[2])
        context = F.scaled_dot_product_attention(self.cut(q), keys, values, attn_mask=keep)
        return self.out(context.transpose(1, 2).flatten(2)), cache


class CachedPacked(nn.Module):
    """The solution's names, packed head by head; the cache is one tensor."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(d_in, 3 * d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        q, *kv = self.qkv_proj(x).unflatten(2, (self.num_heads, 3, -1)).permute(3, 0, 2, 1, 4)
        cache = torch.stack(kv) if cache is None else torch.cat([cache, torch.stack(kv)], 3)
        keys, values = cache
        outputs = []
        for i in range(x.shape[1]):
            seen = cache.shape[3] - x.shape[1] + i + 1
            outputs.append(F.scaled_dot_product_attention(q[:, :, i : i + 1], keys[:, :, :seen], values[:, :, :seen]))
        return [self.out_proj(torch.cat(outputs, 2).transpose(1, 2).flatten(2)), cache]


class CachedInPlace(Cached):
    """A cache of a fixed length, which is filled."""

    def grow(self, cache, keys, values):
        if cache is None:
            cache = [torch.zeros(*keys.shape[:2], 0, keys.shape[3], dtype=keys.dtype) for _ in range(2)]
        cache[0], cache[1] = torch.cat((cache[0], keys), 2), torch.cat((cache[1], values), 2)
        return cache

    def finish(self, output, cache):
        return self.out(output), list(cache)


class CachedTopLeft(Cached):
    def hide(self, scores):
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)


class CachedFused(Cached):
    """PyTorch aligns `is_causal=True` at the first key."""

    def forward(self, x, cache=None):
        keys, values = self.grow(cache, self.cut(self.key(x)), self.cut(self.value(x)))
        context = F.scaled_dot_product_attention(self.cut(self.query(x)), keys, values, is_causal=True)
        return self.out(context.transpose(1, 2).flatten(2)), (keys, values)


class CachedMaskedAtFirst(Cached):
    def hide(self, scores):
        return super().hide(scores) if scores.shape[2] == scores.shape[3] else scores


class CacheIgnored(Cached):
    def grow(self, cache, keys, values):
        return keys, values


class CacheOfLastPiece(Cached):
    def forward(self, x, cache=None):
        own = self.cut(self.key(x)), self.cut(self.value(x))
        keys, values = self.grow(cache, *own)
        weights = self.hide(self.cut(self.query(x)) @ keys.mT / keys.shape[-1] ** 0.5).softmax(-1)
        return self.finish((weights @ values).transpose(1, 2).flatten(2), own)


class CacheInModule(Cached):
    def grow(self, cache, keys, values):
        if cache is not None:
            keys, values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
        self.keys, self.values = keys, values
        return keys, values


class CacheInFront(Cached):
    def join(self, old, new):
        return torch.cat([new, old], 2)


OutputAlone = variant(Cached, finish=lambda self, output, cache: self.out(output))
CacheFirst = variant(Cached, finish=lambda self, output, cache: (cache, self.out(output)))


class OutputOfAllTokens(Cached):
    def finish(self, output, cache):
        return self.out(F.pad(output, (0, 0, cache[0].shape[2] - output.shape[1], 0))), cache


class CacheUnscaled(Cached):
    def forward(self, x, cache=None):
        keys, values = self.grow(cache, self.cut(self.key(x)), self.cut(self.value(x)))
        weights = self.hide(self.cut(self.query(x)) @ keys.mT).softmax(-1)
        return self.finish((weights @ values).transpose(1, 2).flatten(2), (keys, values))


CacheNeeded = variant(Cached, forward=lambda self, x, cache: Cached.forward(self, x, cache))


def step(q, k, v, ck, cv):
    keys, values = torch.cat([ck, k], 2), torch.cat([cv, v], 2)
    return attended(q, keys, values), keys, values


def attended(q, keys, values, scale=None):
    return F.scaled_dot_product_attention(q, keys, values, scale=scale, enable_gqa=True)


def step_by_loop(q, k, v, ck, cv):
    keys, values = torch.cat([ck, k], -2), torch.cat([cv, v], -2)
    size = q.shape[1] // k.shape[1]
    heads = []
    for head in range(q.shape[1]):
        weights = (q[:, head] @ keys[:, head // size].mT / q.shape[3] ** 0.5).softmax(-1)
        heads.append(weights @ values[:, head // size])
    return torch.stack(heads, 1), keys, values


def step_folded(q, k, v, ck, cv):
    b, h, _, d = q.shape
    keys, values = torch.cat([ck, k], 2), torch.cat([cv, v], 2)
    folded = q.view(b, k.shape[1], h // k.shape[1], d) / d**0.5
    return ((folded @ keys.mT).softmax(-1) @ values).view(b, h, 1, d), keys, values


def step_preallocated(q, k, v, ck, cv):
    keys, values = (torch.empty(*old.shape[:2], old.shape[2] + 1, old.shape[3], dtype=old.dtype) for old in (ck, cv))
    keys[:, :, :-1], keys[:, :, -1:], values[:, :, :-1], values[:, :, -1:] = ck, k, cv, v
    return [attended(q, keys, values), keys, values]


def pool_by_loop(weight, num_heads, num_kv_heads):
    heads, size = weight.chunk(num_heads), num_heads // num_kv_heads
    return torch.cat([sum(heads[i * size : (i + 1) * size]) / size for i in range(num_kv_heads)])


def pool_by_product(weight, num_heads, num_kv_heads):
    size, width = num_heads // num_kv_heads, len(weight) // num_heads
    mixing = torch.kron(torch.eye(num_kv_heads), torch.kron(torch.ones(1, size) / size, torch.eye(width)))
    return mixing.to(weight.dtype) @ weight


Tiled = variant(Grouped, share=lambda self, x: x.repeat(1, self.num_heads // self.num_kv_heads, 1, 1))


class NothingBack(Grouped):
    def finish(self, merged):
        self.out_proj(merged)


class OverQueries(Grouped):
    def weigh(self, scores):
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-2)


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
    "MultiQuery": [Shared, SharedPacked, SharedByLoop, SharedFolded],
    "MyMultiQueryAttention": [Shared, SharedPacked, SharedByLoop, SharedFolded],
    "CachedAttention": [Cached, CachedInDict, CachedPacked, CachedInPlace],
    "decode_step": [step, step_by_loop, step_folded, step_preallocated],
    "pool_heads": [
        pool_by_loop,
        pool_by_product,
        lambda w, h, g: w.unflatten(0, (g, h // g, -1)).mean(1).reshape(-1, w.shape[1]),
        lambda w, h, g: torch.einsum("gndm->gdm", w.view(g, h // g, -1, w.shape[1])).flatten(0, 1) * g / h,
    ],
}

WRONG = {
    "MultiQuery": [
        (SharedNotCausal, "no-causal-mask"),
        (SharedUnscaled, "missing-scale"),
        (SharedMergedWrong, "merge-without-transpose"),
        (SharedWithoutOut, "output-projection-missing"),
        (SharedOverQueries, "softmax-wrong-axis"),
    ],
    "MyMultiQueryAttention": [
        (SharedNotCausal, "no-causal-mask"),
        (SharedUnscaled, "missing-scale"),
        (lambda *sizes: Shared(*sizes), "it should be the class itself"),
    ],
    "CachedAttention": [
        (CachedTopLeft, "causal-top-left"),
        (CachedFused, "causal-top-left"),
        (variant(Cached, hide=lambda self, scores: scores), "no-causal-mask", "attention without a mask"),
        (CachedMaskedAtFirst, "no-causal-mask", "in the first piece only"),
        (CacheIgnored, "forgets the pieces before"),
        (CacheOfLastPiece, "remembers the last piece only"),
        (CacheInModule, "in pieces of", "nothing in the module"),
        (CacheInFront, "new tokens in front of the old ones", "In which order"),
        (variant(Cached, join=lambda self, old, new: torch.cat([old, new], 1)), "stopped"),
        (OutputAlone, "it should be two, the output and the cache"),
        (CacheFirst, "the output that `forward` gives back first is a tuple"),
        (OutputOfAllTokens, "tokens `forward` gives back an output of the shape"),
        (CacheUnscaled, "missing-scale"),
        (CacheNeeded, "stopped", "missing 1 required positional argument: 'cache'"),
        (variant(Cached, finish=lambda self, output, cache: (self.out(output.detach()), cache)), "No gradient reaches"),
    ],
    "decode_step": [
        (lambda q, k, v, ck, cv: step(q, k, v, ck.mT, cv.mT), "stopped"),
    ],
    "pool_heads": [
        (lambda w, h, g: w.view(g, h // g, w.shape[1]).mean(1), "stopped", "is invalid for input of size"),
    ],
    "multi_query": [
        (ask_from_zeros, "stopped", "The check computes in float64 and in float32"),
    ],
    "kv_head_of": [
        (lambda h, n, kv: str(h), "it should be a number"),
    ],
    "share_heads": [
        (lambda k, n: k.expand(-1, n, -1, -1), "stopped", "`expand` repeats only an axis of size 1"),
    ],
    "cache_bytes": [
        (lambda t, n, g, d, size: 2 * t * n * g * d * size / 1024, "it should be"),
    ],
    "GroupedQuery": [
        (Tiled, "kv-heads-tiled"),
        (variant(Grouped, share=lambda self, x: x[:, :1].expand(-1, self.num_heads, -1, -1)), "kv-head-zero-only"),
        (variant(Grouped, weigh=lambda self, scores: scores.softmax(-1)), "no-causal-mask"),
        (variant(Grouped, weigh=lambda self, scores: scores.softmax(-1).tril()), "mask-after-softmax"),
        (NothingBack, "returns-none"),
        (OverQueries, "softmax-wrong-axis"),
        (variant(Grouped, share=lambda self, x: x), "stopped", "weights = self.weigh"),
    ],
}
