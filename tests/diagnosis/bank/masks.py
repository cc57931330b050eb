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


def with_gaps(x):
    """(batch, token), True = a token; sample i lacks token i + 1, so that nobody is left without a key."""
    batch, tokens, _ = x.shape
    return torch.arange(tokens, device=x.device) != 1 + torch.arange(batch, device=x.device)[:, None]


def same_document(x):
    """(batch, query, key), True = of one document; in sample i the second document begins at token i + 1."""
    batch, tokens, _ = x.shape
    second = torch.arange(tokens, device=x.device) > torch.arange(batch, device=x.device)[:, None]
    return second[:, :, None] == second[:, None, :]


def causal_pairs(x):
    """(query, key), True = may attend."""
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()


# no-causal-mask


@case("no-causal-mask")
def mask_argument_never_read():
    class BertLikeAttention(nn.Module):
        def __init__(self, hidden, heads, head_size):
            super().__init__()
            self.heads, self.head_size = heads, head_size
            self.query = nn.Linear(hidden, heads * head_size)
            self.key = nn.Linear(hidden, heads * head_size)
            self.value = nn.Linear(hidden, heads * head_size)
            self.dense = nn.Linear(heads * head_size, hidden + 1)

        def transpose_for_scores(self, x):
            return x.view(*x.shape[:2], self.heads, self.head_size).permute(0, 2, 1, 3)

        def forward(self, hidden_states, attention_mask=None):
            q = self.transpose_for_scores(self.query(hidden_states))
            k = self.transpose_for_scores(self.key(hidden_states))
            v = self.transpose_for_scores(self.value(hidden_states))
            attention_scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_size)
            attention_probs = nn.functional.softmax(attention_scores, dim=-1)
            context = torch.matmul(attention_probs, v).permute(0, 2, 1, 3).contiguous()
            return self.dense(context.flatten(start_dim=2)), attention_probs

    torch.manual_seed(9)
    call = lambda m, x: m(x, attention_mask=causal_pairs(x)[None, None])[0]  # noqa: E731
    return BertLikeAttention(11, 2, 7), some_x(4, 5, 11), {"num_heads": 2, "call": call}


# mask-inverted


@case("mask-inverted")
def attention_mask_of_ones_for_tokens():
    class PaddedAttention(nn.Module):
        def __init__(self, dim, n_heads, head_dim):
            super().__init__()
            self.n_heads = n_heads
            self.q, self.k, self.v = (nn.Linear(dim, n_heads * head_dim, bias=False) for _ in range(3))
            self.o = nn.Linear(n_heads * head_dim, 14, bias=False)

        def forward(self, x, attention_mask):
            b, t, _ = x.shape
            q, k, v = (f(x).view(b, t, self.n_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
            scores = q @ k.mT / math.sqrt(q.size(-1))
            hide = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            hide = hide | attention_mask[:, None, None, :].bool()  # wrong
            scores = scores.masked_fill(hide, torch.finfo(scores.dtype).min)
            return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(20)
    x = some_x(3, 7, 11)
    options = {"num_heads": 2, "keep": with_gaps(x)[:, None, None, :]}
    options["call"] = lambda m, x: m(x, with_gaps(x).long())
    return PaddedAttention(11, 2, 9), x, options


# mask-after-softmax


@case("mask-after-softmax")
def grouped_and_returns_weights():
    class GroupedQueryAttention(nn.Module):
        def __init__(self, d_model, n_q, n_kv, d_head):
            super().__init__()
            self.n_q, self.n_kv, self.d_head = n_q, n_kv, d_head
            self.wq = nn.Linear(d_model, n_q * d_head, bias=False)
            self.wkv = nn.Linear(d_model, 2 * n_kv * d_head, bias=False)
            self.wo = nn.Linear(n_q * d_head, d_model + 5, bias=False)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.wq(x).view(b, t, self.n_q, self.d_head).transpose(1, 2)
            k, v = self.wkv(x).view(b, t, 2, self.n_kv, self.d_head).permute(2, 0, 3, 1, 4)
            k = k.repeat_interleave(self.n_q // self.n_kv, dim=1)
            v = v.repeat_interleave(self.n_q // self.n_kv, dim=1)
            attn = (q @ k.transpose(2, 3) / math.sqrt(self.d_head)).softmax(dim=3)
            attn = attn * torch.ones(t, t, dtype=attn.dtype, device=attn.device).tril()  # wrong
            return self.wo((attn @ v).transpose(1, 2).reshape(b, t, -1)), attn

    torch.manual_seed(38)
    options = {"num_heads": 4, "num_kv_heads": 2, "call": lambda m, x: m(x)[0]}
    return GroupedQueryAttention(12, 4, 2, 3), some_x(2, 6, 12), options


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


@case("causal-top-left")
def additive_mask_for_grouped_heads():
    class Llama(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads, head_dim):
            super().__init__()
            self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
            self.wq = nn.Linear(dim, n_heads * head_dim)
            self.wk = nn.Linear(dim, n_kv_heads * head_dim)
            self.wv = nn.Linear(dim, n_kv_heads * head_dim)
            self.wo = nn.Linear(n_heads * head_dim, n_heads * head_dim)

        def forward(self, x, past):
            bsz, seqlen, _ = x.shape
            xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2)
            past.append((self.wk(x), self.wv(x)))
            keys, values = (torch.cat(parts, dim=1) for parts in zip(*past, strict=True))
            keys = keys.view(bsz, -1, self.n_kv_heads, self.head_dim).transpose(1, 2)
            values = values.view(bsz, -1, self.n_kv_heads, self.head_dim).transpose(1, 2)
            keys, values = (s.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for s in (keys, values))
            mask = torch.full((seqlen, keys.shape[2]), float("-inf"), dtype=x.dtype, device=x.device)
            scores = xq @ keys.transpose(2, 3) / math.sqrt(self.head_dim) + mask.triu(1)  # wrong
            return self.wo((scores.softmax(dim=-1) @ values).transpose(1, 2).reshape(bsz, seqlen, -1))

    def call(m, x):
        past = []
        return torch.cat([m(token, past) for token in x.split(1, dim=1)], dim=1)

    torch.manual_seed(50)
    return Llama(15, 6, 2, 3), some_x(2, 6, 15), {"num_heads": 6, "num_kv_heads": 2, "call": call}


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
