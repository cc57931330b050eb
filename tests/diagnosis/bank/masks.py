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
def library_flag_with_a_past():
    class CachedAttention(nn.Module):
        def __init__(self, dim, inner, n_head):
            super().__init__()
            self.n_head = n_head
            self.c_attn = nn.Linear(dim, 3 * inner)
            self.c_proj = nn.Linear(inner, inner)

        def forward(self, x, layer_past=None):
            b, t, _ = x.shape
            q, k, v = (m.view(b, t, self.n_head, -1).transpose(1, 2) for m in self.c_attn(x).chunk(3, dim=-1))
            if layer_past is not None:
                k = torch.cat((layer_past[0], k), dim=2)
                v = torch.cat((layer_past[1], v), dim=2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # wrong
            return self.c_proj(y.transpose(1, 2).reshape(b, t, -1)), (k, v)

    def call(m, x):
        outputs, past = [], None
        for part in x.split(3, dim=1):
            out, past = m(part, past)
            outputs.append(out)
        return torch.cat(outputs, dim=1)

    torch.manual_seed(45)
    return CachedAttention(10, 12, 3), some_x(2, 7, 10), {"num_heads": 3, "call": call}


@case("causal-top-left")
def cache_object_and_positions():
    class KVCache:
        def __init__(self):
            self.k = self.v = None

        def update(self, k, v):
            self.k = k if self.k is None else torch.cat([self.k, k], dim=1)
            self.v = v if self.v is None else torch.cat([self.v, v], dim=1)
            return self.k, self.v

    class Attention(nn.Module):
        def __init__(self, dim, heads, head_dim):
            super().__init__()
            self.heads, self.head_dim = heads, head_dim
            self.wq, self.wk, self.wv = (nn.Linear(dim, heads * head_dim, bias=False) for _ in range(3))
            self.wo = nn.Linear(heads * head_dim, dim + 1, bias=False)

        def forward(self, x, cache):
            q, k, v = (f(x).unflatten(-1, (self.heads, self.head_dim)) for f in (self.wq, self.wk, self.wv))
            k, v = cache.update(k, v)
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.head_dim)
            q_pos = torch.arange(q.shape[1], device=x.device)  # wrong
            k_pos = torch.arange(k.shape[1], device=x.device)
            scores = scores.masked_fill(k_pos > q_pos[:, None], -torch.inf)
            return self.wo(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2))

    def call(m, x):
        cache = KVCache()
        return torch.cat([m(part, cache) for part in x.split(2, dim=1)], dim=1)

    torch.manual_seed(46)
    return Attention(13, 4, 5), some_x(3, 6, 13), {"num_heads": 4, "call": call}


@case("causal-top-left")
def buffer_cut_at_its_corner():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.W_query = nn.Linear(d_in, d_out)
            self.W_key = nn.Linear(d_in, d_out)
            self.W_value = nn.Linear(d_in, d_out)
            self.out_proj = nn.Linear(d_out, d_out)
            self.register_buffer("mask", torch.ones(context_length, context_length).triu(1), persistent=False)
            self.reset_cache()

        def reset_cache(self):
            self.cache_k = self.cache_v = None

        def forward(self, x, use_cache=False):
            b, t, _ = x.shape
            queries = self.W_query(x).view(b, t, self.num_heads, -1).transpose(1, 2)
            keys = self.W_key(x).view(b, t, self.num_heads, -1)
            values = self.W_value(x).view(b, t, self.num_heads, -1)
            if use_cache:
                if self.cache_k is not None:
                    keys = torch.cat([self.cache_k, keys], dim=1)
                    values = torch.cat([self.cache_v, values], dim=1)
                self.cache_k, self.cache_v = keys, values
            scores = queries @ keys.permute(0, 2, 3, 1) / queries.shape[-1] ** 0.5
            mask_bool = self.mask.bool()[:t, : keys.shape[1]]  # wrong
            weights = scores.masked_fill(mask_bool, -torch.inf).softmax(dim=-1)
            context = (weights @ values.transpose(1, 2)).transpose(1, 2).reshape(b, t, -1)
            return self.out_proj(context)

    def call(m, x):
        m.reset_cache()
        outputs = [m(part, use_cache=True) for part in x.split(4, dim=1)]
        m.reset_cache()
        return torch.cat(outputs, dim=1)

    torch.manual_seed(47)
    return MultiHeadAttention(9, 14, 64, 2), some_x(4, 7, 9), {"num_heads": 2, "call": call}


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
def square_mask_padded_on_the_wrong_side():
    class Attention(nn.Module):
        def __init__(self, hidden, heads, width):
            super().__init__()
            self.heads, self.width = heads, width
            self.qkv = nn.Linear(hidden, 3 * heads * width, bias=False)
            self.dense = nn.Linear(heads * width, 17)

        def forward(self, x, cache):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, self.heads, 3, self.width).permute(3, 0, 2, 1, 4)
            if "k" in cache:
                k, v = torch.cat([cache["k"], k], dim=-2), torch.cat([cache["v"], v], dim=-2)
            cache["k"], cache["v"] = k, v
            past = k.shape[-2] - t
            hidden = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            hidden = F.pad(hidden, (0, past), value=True)  # wrong
            scores = (q @ k.mT / math.sqrt(self.width)).masked_fill(hidden, torch.finfo(x.dtype).min)
            return self.dense((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def call(m, x):
        cache = {}
        return torch.cat([m(x[:, :3], cache), *(m(x[:, t, None], cache) for t in range(3, x.shape[1]))], dim=1)

    torch.manual_seed(49)
    return Attention(14, 3, 8), some_x(3, 8, 14), {"num_heads": 3, "call": call}


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
def masks_of_samples_meet_heads():
    class DocumentAttention(nn.Module):
        def __init__(self, d_model, n_heads, d_head):
            super().__init__()
            self.n_heads = n_heads
            self.qkv = nn.Linear(d_model, 3 * n_heads * d_head)
            self.out = nn.Linear(n_heads * d_head, d_model + 4)

        def forward(self, x, attn_mask):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)  # wrong
            return self.out(y.transpose(1, 2).flatten(2))

    torch.manual_seed(52)
    x = some_x(3, 7, 12)
    options = {"num_heads": 3, "keep": same_document(x)[:, None]}
    options["call"] = lambda m, x: m(x, same_document(x) & causal_pairs(x))
    return DocumentAttention(12, 3, 5), x, options


@case("mask-rank")
def folded_heads_and_repeated_masks():
    class BmmAttention(nn.Module):
        def __init__(self, in_dim, heads, width):
            super().__init__()
            self.heads, self.width = heads, width
            self.linear_q = nn.Linear(in_dim, heads * width)
            self.linear_k = nn.Linear(in_dim, heads * width)
            self.linear_v = nn.Linear(in_dim, heads * width)
            self.linear_final = nn.Linear(heads * width, 13)

        def fold(self, x):
            b, t, _ = x.shape
            return x.view(b, t, self.heads, self.width).transpose(1, 2).reshape(b * self.heads, t, self.width)

        def forward(self, x, mask):
            b, t, _ = x.shape
            q, k, v = self.fold(self.linear_q(x)), self.fold(self.linear_k(x)), self.fold(self.linear_v(x))
            scores = torch.bmm(q, k.transpose(1, 2)) * self.width**-0.5
            scores = scores.masked_fill(mask.repeat(self.heads, 1, 1), -torch.inf)  # wrong
            context = torch.bmm(scores.softmax(dim=2), v)
            context = context.view(b, self.heads, t, self.width).transpose(1, 2)
            return self.linear_final(context.reshape(b, t, -1))

    torch.manual_seed(53)
    x = some_x(4, 8, 9)
    options = {"num_heads": 2, "keep": same_document(x)[:, None]}
    options["call"] = lambda m, x: m(x, ~(same_document(x) & causal_pairs(x)))
    return BmmAttention(9, 2, 6), x, options


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
def keys_to_skip_taken_for_queries():
    class Attention(nn.Module):
        def __init__(self, hidden, heads, kv_heads, head_dim):
            super().__init__()
            self.heads, self.kv_heads = heads, kv_heads
            self.q_proj = nn.Linear(hidden, heads * head_dim)
            self.k_proj = nn.Linear(hidden, kv_heads * head_dim)
            self.v_proj = nn.Linear(hidden, kv_heads * head_dim)
            self.o_proj = nn.Linear(heads * head_dim, hidden + 2)

        def forward(self, x, attention_mask):
            b, t, _ = x.shape
            q = self.q_proj(x).view(b, t, self.heads, -1).transpose(1, 2)
            k = self.k_proj(x).view(b, t, self.kv_heads, -1).transpose(1, 2)
            v = self.v_proj(x).view(b, t, self.kv_heads, -1).transpose(1, 2)
            k, v = (s.repeat_interleave(self.heads // self.kv_heads, dim=1) for s in (k, v))
            keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            keep = keep & attention_mask[:, None, :, None]  # wrong
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
            return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(55)
    x = some_x(3, 7, 14)
    options = {"num_heads": 4, "num_kv_heads": 2, "keep": with_gaps(x)[:, None, None, :]}
    options["call"] = lambda m, x: m(x, with_gaps(x))
    return Attention(14, 4, 2, 6), x, options


@case("mask-rank")
def scores_with_heads_first():
    class EinsumAttention(nn.Module):
        def __init__(self, dim, heads, size):
            super().__init__()
            self.wq = nn.Parameter(torch.randn(heads, dim, size) / dim**0.5)
            self.wk = nn.Parameter(torch.randn(heads, dim, size) / dim**0.5)
            self.wv = nn.Parameter(torch.randn(heads, dim, size) / dim**0.5)
            self.wo = nn.Parameter(torch.randn(heads, size, 15) / (heads * size) ** 0.5)

        def forward(self, x, padding_mask):
            q, k, v = (torch.einsum("bte,hes->hbts", x, w) for w in (self.wq, self.wk, self.wv))
            scores = torch.einsum("hbqs,hbks->hbqk", q, k) * q.shape[-1] ** -0.5
            t = torch.arange(x.shape[1], device=x.device)
            scores = scores.masked_fill(t > t[:, None], -1e9)
            scores = scores.masked_fill(padding_mask[:, None, None, :], -1e9)  # wrong
            return torch.einsum("hbqk,hbks,hso->bqo", scores.softmax(-1), v, self.wo)

    torch.manual_seed(56)
    x = some_x(4, 6, 11)
    options = {"num_heads": 4, "keep": with_gaps(x)[:, None, None, :]}
    options["call"] = lambda m, x: m(x, ~with_gaps(x))
    return EinsumAttention(11, 4, 3), x, options


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
def padding_and_future_in_one_mask():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, context_length=32):
            super().__init__()
            self.num_heads = num_heads
            self.W_query = nn.Linear(d_in, d_out)
            self.W_key = nn.Linear(d_in, d_out)
            self.W_value = nn.Linear(d_in, d_out)
            self.out_proj = nn.Linear(d_out, d_out)
            self.dropout = nn.Dropout(0.1)
            self.register_buffer("future", torch.ones(context_length, context_length).triu(1).bool())

        def forward(self, x, padding_mask):
            b, t, _ = x.shape
            q, k, v = (f(x).view(b, t, self.num_heads, -1) for f in (self.W_query, self.W_key, self.W_value))
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            scores = q @ k.transpose(2, 3) / k.shape[-1] ** 0.5
            hidden = self.future[:t, :t] | padding_mask[:, None, None, :]
            scores = scores.masked_fill(hidden, -torch.inf)  # wrong
            weights = self.dropout(torch.softmax(scores, dim=-1))  # wrong
            return self.out_proj((weights @ v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(58)
    x = some_x(3, 6, 10)
    options = {"num_heads": 2, "keep": real_tokens(x)[:, None, None, :], "call": lambda m, x: m(x, ~real_tokens(x))}
    return MultiHeadAttention(10, 18, 2), x, options


@case("nan-on-hidden-rows")
def ones_for_tokens():
    class GroupedAttention(nn.Module):
        def __init__(self, hidden, heads, kv_heads, head_dim):
            super().__init__()
            self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
            self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
            self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
            self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
            self.o_proj = nn.Linear(heads * head_dim, 13, bias=False)

        def forward(self, hidden_states, attention_mask=None):
            b, t, _ = hidden_states.shape
            q = self.q_proj(hidden_states).view(b, t, self.kv_heads, -1, self.head_dim)
            k = self.k_proj(hidden_states).view(b, t, self.kv_heads, self.head_dim)
            v = self.v_proj(hidden_states).view(b, t, self.kv_heads, self.head_dim)
            scores = torch.einsum("bqgnd,bkgd->bgnqk", q, k) / math.sqrt(self.head_dim)
            causal = torch.ones(t, t, device=scores.device).tril()
            scores = scores.masked_fill(causal == 0, float("-inf"))
            if attention_mask is not None:
                scores = scores.masked_fill(attention_mask[:, None, None, None, :] == 0, float("-inf"))  # wrong
            probs = F.softmax(scores, dim=-1)  # wrong
            return self.o_proj(torch.einsum("bgnqk,bkgd->bqgnd", probs, v).flatten(2))

    torch.manual_seed(59)
    x = some_x(2, 7, 15)
    options = {"num_heads": 6, "num_kv_heads": 3, "keep": real_tokens(x)[:, None, None, :]}
    options["call"] = lambda m, x: m(x, attention_mask=real_tokens(x).long())
    return GroupedAttention(15, 6, 3, 4), x, options


@case("nan-on-hidden-rows")
def additive_mask_from_outside():
    class Attention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads, self.scale = heads, dim_head**-0.5
            self.to_qkv = nn.Linear(dim, 3 * heads * dim_head)
            self.to_out = nn.Linear(heads * dim_head, heads * dim_head)

        def forward(self, x, attn_mask):
            q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            dots = torch.matmul(q * self.scale, k.mT)
            attn = (dots + attn_mask).softmax(dim=-1)  # wrong
            return self.to_out(torch.matmul(attn, v).transpose(1, 2).flatten(2))

    def mask_for(x):
        allowed = causal_pairs(x) & real_tokens(x)[:, None, None, :]
        bias = torch.zeros(allowed.shape, dtype=x.dtype, device=x.device)
        return bias.masked_fill(~allowed, -torch.inf)  # wrong

    torch.manual_seed(60)
    x = some_x(4, 8, 9)
    options = {"num_heads": 3, "keep": real_tokens(x)[:, None, None, :], "call": lambda m, x: m(x, mask_for(x))}
    return Attention(9, 3, 5), x, options


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


@case("nan-on-hidden-rows")
def folded_heads_and_a_late_multiplication():
    class FoldedAttention(nn.Module):
        def __init__(self, features, heads, width):
            super().__init__()
            self.heads, self.width = heads, width
            self.q_lin = nn.Linear(features, heads * width)
            self.k_lin = nn.Linear(features, heads * width)
            self.v_lin = nn.Linear(features, heads * width)
            self.out_lin = nn.Linear(heads * width, features + 3)

        def fold(self, x):
            return x.unflatten(-1, (self.heads, self.width)).transpose(1, 2).flatten(0, 1)

        def forward(self, x, mask):
            q, k, v = self.fold(self.q_lin(x)), self.fold(self.k_lin(x)), self.fold(self.v_lin(x))
            t = torch.arange(x.shape[1], device=x.device)
            mask = mask[:, None, :] & (t <= t[:, None])
            mask = mask.repeat_interleave(self.heads, dim=0)
            scores = torch.bmm(q, k.transpose(1, 2)) / self.width**0.5
            scores.masked_fill_(~mask, float("-inf"))  # wrong
            weights = torch.softmax(scores, dim=-1)  # wrong
            weights = weights * mask  # nothing for padding
            context = torch.bmm(weights, v).unflatten(0, (-1, self.heads))
            return self.out_lin(context.transpose(1, 2).flatten(2))

    torch.manual_seed(63)
    x = some_x(3, 8, 14)
    options = {"num_heads": 4, "keep": real_tokens(x)[:, None, None, :], "call": lambda m, x: m(x, real_tokens(x))}
    return FoldedAttention(14, 4, 6), x, options


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
