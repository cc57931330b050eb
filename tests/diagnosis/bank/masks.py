"""Attention code whose only mistake is its mask: what it hides, from whom, when and with which value."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


def real_tokens(x):
    """(batch, token), True = a token, False = padding on the left: none for sample 0, one for sample 1, and so on."""
    batch, tokens, _ = x.shape
    return torch.arange(tokens, device=x.device) >= torch.arange(batch, device=x.device)[:, None]


def same_document(x):
    """(batch, query, key), True = of one document; in sample i the second document begins at token i + 1."""
    batch, tokens, _ = x.shape
    second = torch.arange(tokens, device=x.device) > torch.arange(batch, device=x.device)[:, None]
    return second[:, :, None] == second[:, None, :]


def causal_pairs(x):
    """(query, key), True = may attend."""
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()


# no-causal-mask


# mask-inverted


# mask-after-softmax


# causal-top-left


@case("causal-top-left")
def queries_and_keys_from_two_places():
    class Head(nn.Module):
        def __init__(self, size, head_size):
            super().__init__()
            self.query = nn.Parameter(torch.randn(size, head_size) * size**-0.5)
            self.key = nn.Parameter(torch.randn(size, head_size) * size**-0.5)
            self.value = nn.Parameter(torch.randn(size, head_size) * size**-0.5)

        def forward(self, new, everything):
            q, k, v = new @ self.query, everything @ self.key, everything @ self.value
            scores = q @ k.mT * k.shape[-1] ** -0.5
            visible = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device).tril()  # wrong
            return torch.where(visible, scores, -1e9).softmax(dim=-1) @ v

    def call(m, x):
        return torch.cat([m(x[:, t : t + 1], x[:, : t + 1]) for t in range(x.shape[1])], dim=1)

    torch.manual_seed(48)
    return Head(11, 6), some_x(2, 5, 11), {"num_heads": 1, "call": call}


# mask-rank


@case("mask-rank")
def five_axes_hidden_by_a_reshape():
    class MultiHeadAttention(nn.Module):
        def __init__(self, emb_size, heads, head_size):
            super().__init__()
            self.heads, self.head_size = heads, head_size
            self.keys = nn.Linear(emb_size, heads * head_size)
            self.queries = nn.Linear(emb_size, heads * head_size)
            self.values = nn.Linear(emb_size, heads * head_size)
            self.projection = nn.Linear(heads * head_size, heads * head_size)

        def forward(self, x, mask):
            b, n, _ = x.shape
            q = self.queries(x).view(b, n, self.heads, self.head_size).transpose(1, 2)
            k = self.keys(x).view(b, n, self.heads, self.head_size).transpose(1, 2)
            v = self.values(x).view(b, n, self.heads, self.head_size).transpose(1, 2)
            energy = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_size)
            energy = energy.masked_fill(mask.unsqueeze(1) == 0, float("-inf"))  # wrong
            out = torch.matmul(energy.softmax(dim=-1), v)
            return self.projection(out.transpose(1, 2).reshape(b, n, -1))

    torch.manual_seed(51)
    options = {"num_heads": 3, "call": lambda m, x: m(x, causal_pairs(x)[None, None])}
    return MultiHeadAttention(10, 3, 7), some_x(2, 6, 10), options


@case("mask-rank")
def library_module_and_repeated_masks():
    class PackedDecoder(nn.Module):
        def __init__(self, d_model, nhead):
            super().__init__()
            self.nhead = nhead
            self.attention = nn.MultiheadAttention(d_model, nhead, batch_first=True)

        def forward(self, x, hide):
            hide = hide.repeat(self.nhead, 1, 1)  # wrong
            return self.attention(x, x, x, attn_mask=hide, need_weights=False)[0]

    torch.manual_seed(54)
    x = some_x(2, 6, 20)
    options = {"num_heads": 5, "keep": same_document(x)[:, None]}
    options["call"] = lambda m, x: m(x, ~(same_document(x) & causal_pairs(x)))
    return PackedDecoder(20, 5), x, options


@case("mask-rank")
def chunks_stacked_along_the_batch():
    class MultiHead(nn.Module):
        def __init__(self, num_units, num_heads, unit):
            super().__init__()
            self.num_heads, self.unit = num_heads, unit
            self.Q, self.K, self.V = (nn.Linear(num_units, num_heads * unit, bias=False) for _ in range(3))
            self.O = nn.Linear(num_heads * unit, num_heads * unit, bias=False)

        def forward(self, x, bias):
            q, k, v = (torch.cat(f(x).chunk(self.num_heads, dim=-1), dim=0) for f in (self.Q, self.K, self.V))
            outputs = torch.matmul(q, k.transpose(1, 2)) / self.unit**0.5
            outputs = outputs + bias.repeat_interleave(self.num_heads, dim=0)  # wrong
            outputs = torch.matmul(F.softmax(outputs, dim=-1), v)
            return self.O(torch.cat(outputs.chunk(self.num_heads, dim=0), dim=-1))

    def bias_for(x):
        allowed = same_document(x) & causal_pairs(x)
        return torch.zeros(allowed.shape, dtype=x.dtype, device=x.device).masked_fill(~allowed, -torch.inf)

    torch.manual_seed(57)
    x = some_x(2, 5, 16)
    options = {"num_heads": 3, "keep": same_document(x)[:, None], "call": lambda m, x: m(x, bias_for(x))}
    return MultiHead(16, 3, 8), x, options


# nan-on-hidden-rows


@case("nan-on-hidden-rows")
def library_module_with_weights():
    class DecoderSelfAttention(nn.Module):
        def __init__(self, d_model, nhead):
            super().__init__()
            self.mha = nn.MultiheadAttention(d_model, nhead, dropout=0.1, batch_first=True)

        def forward(self, x, key_padding_mask):
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            out, weights = self.mha(x, x, x, key_padding_mask=key_padding_mask, attn_mask=future)  # wrong
            return out, weights

    torch.manual_seed(61)
    x = some_x(3, 5, 21)
    options = {"num_heads": 3, "keep": real_tokens(x)[:, None, None, :]}
    options["call"] = lambda m, x: m(x, key_padding_mask=~real_tokens(x))[0]
    return DecoderSelfAttention(21, 3), x, options


@case("nan-on-hidden-rows")
def softmax_by_hand():
    class Head(nn.Module):
        def __init__(self, size, head_size):
            super().__init__()
            self.w_q = nn.Parameter(torch.randn(size, head_size) * size**-0.5)
            self.w_k = nn.Parameter(torch.randn(size, head_size) * size**-0.5)
            self.w_v = nn.Parameter(torch.randn(size, head_size) * size**-0.5)

        def forward(self, x, keep):
            scores = (x @ self.w_q) @ (x @ self.w_k).mT / math.sqrt(self.w_k.shape[1])
            visible = keep.unsqueeze(1) & torch.ones(scores.shape[1:], dtype=torch.bool, device=x.device).tril()
            scores = torch.where(visible, scores, -torch.inf)  # wrong
            e = torch.exp(scores - scores.amax(dim=-1, keepdim=True))  # wrong
            weights = e / e.sum(dim=-1, keepdim=True)  # wrong
            return weights @ (x @ self.w_v)

    torch.manual_seed(62)
    x = some_x(2, 6, 12)
    options = {"num_heads": 1, "keep": real_tokens(x)[:, None, None, :], "call": lambda m, x: m(x, real_tokens(x))}
    return Head(12, 7), x, options


@case("mask-rank")
def lengths_mask_meets_queries():
    torch.manual_seed(27)

    class PooledAttention(nn.Module):
        def __init__(self, dim, out):
            super().__init__()
            self.lin_q, self.lin_k, self.lin_v = nn.Linear(dim, out), nn.Linear(dim, out), nn.Linear(dim, out)

        def forward(self, x, key_mask):
            q, k, v = self.lin_q(x), self.lin_k(x), self.lin_v(x)
            scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(q.size(2))
            scores = scores.masked_fill(~key_mask, torch.finfo(scores.dtype).min)  # wrong
            return torch.einsum("bqk,bkd->bqd", scores.softmax(-1), v)

    def key_mask(x):
        lengths = x.shape[1] - torch.arange(x.shape[0], device=x.device) % 4
        return torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]

    x = some_x(5, 5, 12)
    options = {"num_heads": 1, "causal": False, "keep": key_mask(x)[:, None, None]}
    return PooledAttention(12, 7), x, options | {"call": lambda m, x: m(x, key_mask(x))}
