"""Answers to the blanks of lesson 14, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn


class Packed(nn.Module):
    """Multi-head attention with one packed projection and PyTorch's fused kernel."""

    scale = None
    causal = True

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads = num_heads
        self.qkv = nn.Linear(d_in, 3 * d_out)
        self.mix = nn.Linear(d_out, d_out)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.merged(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale))

    def merged(self, context):
        return self.mix(context.transpose(1, 2).flatten(2))


class OneByOne(nn.Module):
    """Multi-head attention in a loop over heads that each have their own matrices."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.roles = nn.ModuleList(
            nn.ModuleList(nn.Linear(d_in, d_out // num_heads, bias=False) for _ in range(3)) for _ in range(num_heads)
        )
        self.join = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        found = []
        for role in self.roles:
            q, k, v = (matrix(x) for matrix in role)
            scores = torch.einsum("bqd,bkd->bqk", q, k) / q.shape[-1] ** 0.5
            hidden = torch.full_like(scores, -torch.inf).triu(1)
            found.append((scores + hidden).softmax(-1) @ v)
        return self.join(torch.cat(found, -1))


class SeesAll(Packed):
    causal = False


class Unscaled(Packed):
    scale = 1.0


class Scrambled(Packed):
    def merged(self, context):
        return self.mix(context.reshape(context.shape[0], context.shape[2], -1))


class NotMixed(Packed):
    def merged(self, context):
        return context.transpose(1, 2).flatten(2)


class Shared(nn.Module):
    """Multi-query attention with a cache."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads, self.width = num_heads, d_out // num_heads
        self.ask = nn.Linear(d_in, d_out, bias=False)
        self.tell = nn.Linear(d_in, 2 * self.width, bias=False)
        self.mix = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        told = self.tell(x) if cache is None else torch.cat([cache, self.tell(x)], 1)  # (b, k, 2 * d)
        q = self.ask(x).unflatten(2, (self.heads, -1))
        keys, values = told.chunk(2, -1)
        scores = torch.einsum("bqhd,bkd->bhqk", q, keys) / self.width**0.5
        weights = scores.masked_fill(~self.keep(x.shape[1], told.shape[1]), -torch.inf).softmax(-1)
        return self.mix(torch.einsum("bhqk,bkd->bqhd", weights, values).flatten(2)), self.remembered(told, x)

    def keep(self, new, all_keys):
        return torch.ones(new, all_keys).tril(all_keys - new).bool()

    def remembered(self, told, x):
        return told


class Folded(Shared):
    """Heads folded into the queries; the cache is a dict."""

    def forward(self, x, cache=None):
        b, n, _ = x.shape
        keys, values = self.tell(x).chunk(2, -1)
        if cache:
            keys, values = torch.cat((cache["k"], keys), 1), torch.cat((cache["v"], values), 1)
        k = keys.shape[1]
        q = self.ask(x).reshape(b, n * self.heads, self.width)
        at = torch.arange(k - n, k).repeat_interleave(self.heads)
        scores = (q * self.width**-0.5) @ keys.mT
        weights = torch.where(torch.arange(k) <= at[:, None], scores, -torch.inf).softmax(-1)
        return self.mix((weights @ values).reshape(b, n, -1)), {"k": keys, "v": values}


class TopLeft(Shared):
    def keep(self, new, all_keys):
        return torch.ones(new, all_keys).tril().bool()


class NoMask(Shared):
    def keep(self, new, all_keys):
        return torch.ones(new, all_keys).bool()


class ForgetsOld(Shared):
    def remembered(self, told, x):
        return told[:, -x.shape[1] :]


class OutputOnly(Shared):
    def forward(self, x, cache=None):
        return super().forward(x, cache)[0]


class HeadsOfTheirOwn(nn.Module):
    """Multi-head attention with a cache, where multi-query attention was asked for."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads = num_heads
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=False)
        self.mix = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        q, k, v = (role.unflatten(2, (self.heads, -1)).transpose(1, 2) for role in self.qkv(x).chunk(3, -1))
        if cache:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        keep = torch.ones(q.shape[2], k.shape[2]).tril(k.shape[2] - q.shape[2]).bool()
        return self.mix(F.scaled_dot_product_attention(q, k, v, keep).transpose(1, 2).flatten(2)), (k, v)


def batch_by_loop(tokens, starts, length):
    inputs = torch.stack([tokens[start : start + length] for start in starts])
    targets = torch.stack([tokens[start + 1 : start + 1 + length] for start in starts])
    return inputs, targets


def batch_by_unfold(tokens, starts, length):
    pieces = tokens.unfold(0, length + 1, 1)[starts]
    return [pieces[:, :length], pieces[:, 1:]]


def greedy_by_first_call(model, tokens, num_new):
    scores, caches = model(tokens)
    written = [tokens]
    for _ in range(num_new):
        newest = scores[:, -1:].argmax(-1)
        written.append(newest)
        scores, caches = model(newest, caches=caches)
    return torch.cat(written, 1)


def greedy_token_by_token(model, tokens, num_new):
    caches = None
    for t in range(tokens.shape[1]):
        scores, caches = model(tokens[:, t : t + 1], caches)
    for _ in range(num_new - 1):
        tokens = torch.cat([tokens, scores.argmax(-1)], 1)
        scores, caches = model(tokens[:, -1:], caches)
    return torch.cat([tokens, scores.argmax(-1)], 1)


def greedy_without_cache(model, tokens, num_new):
    for _ in range(num_new):
        scores, _ = model(tokens)
        tokens = torch.cat([tokens, scores[:, -1:].argmax(-1)], 1)
    return tokens


def greedy_with_everything(model, tokens, num_new):
    caches = None
    for _ in range(num_new):
        scores, caches = model(tokens, caches)
        tokens = torch.cat([tokens, scores[:, -1:].argmax(-1)], 1)
    return tokens


RIGHT = {
    "MultiHeadFromMemory": [Packed, OneByOne],
    "MultiQueryWithCache": [Shared, Folded],
    "cut_batch": [batch_by_loop, batch_by_unfold],
    "write_greedily": [greedy_by_first_call, greedy_token_by_token],
}

WRONG = {
    "MultiHeadFromMemory": [
        (SeesAll, "no-causal-mask"),
        (Unscaled, "missing-scale"),
        (Scrambled, "merge-without-transpose"),
        (NotMixed, "output-projection-missing"),
    ],
    "MultiQueryWithCache": [
        (TopLeft, "causal-top-left"),
        (NoMask, "no-causal-mask"),
        (ForgetsOld, "remembers the last piece only"),
        (OutputOnly, "it should be two, the output and the cache"),
        (HeadsOfTheirOwn, "numbers per token"),
    ],
    "cut_batch": [
        (lambda t, s, n: (batch_by_loop(t, s, n)[0], t[s + n]), "shape"),
        (lambda t, s, n: tuple(part[:, 1:] for part in batch_by_loop(t, s, n)), "shape"),
        (lambda t, s, n: batch_by_loop(t, s, n)[0], "it should be"),
    ],
    "write_greedily": [
        (greedy_without_cache, "stopped", "each must go in once"),
        (greedy_with_everything, "stopped", "each must go in once"),
        (lambda m, t, n: greedy_by_first_call(m, t, n - 1), "shape"),
    ],
}
