"""Right attention code in the designs of papers and libraries: forty pieces in which nothing is to be found."""

import math
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import einsum

from .case import collector, some_x

CASES, case = collector()


@case(None)
def sdpa_is_causal():
    torch.manual_seed(4)

    class FlashCausal(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.n_head, self.dropout = config.n_head, config.dropout
            self.c_attn = nn.Linear(config.n_in, 3 * config.n_embd, bias=config.bias)
            self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
            self.resid_dropout = nn.Dropout(config.dropout)

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=2))
            p = self.dropout if self.training else 0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=p, is_causal=True)
            y = y.transpose(1, 2).contiguous().view(B, T, -1)
            return self.resid_dropout(self.c_proj(y))

    config = SimpleNamespace(n_in=11, n_embd=20, n_head=4, dropout=0.1, bias=False)
    return FlashCausal(config), some_x(3, 6, 11), {"num_heads": 4}


@case(None)
def sdpa_bool_mask_three_axes():
    torch.manual_seed(5)

    class SingleHead(nn.Module):
        def __init__(self, d_in, d):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(d_in, d) for _ in range(3))

        def forward(self, x):
            pos = torch.arange(x.size(-2), device=x.device)
            may_look = pos.unsqueeze(1) >= pos.unsqueeze(0)
            return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), attn_mask=may_look)

    return SingleHead(9, 7), some_x(2, 5, 9), {"num_heads": 1}


@case(None)
def sdpa_float_mask_and_own_scale():
    torch.manual_seed(6)

    class PreScaled(nn.Module):
        def __init__(self, d_in, heads, hd):
            super().__init__()
            self.heads, self.hd = heads, hd
            self.qkv = nn.Parameter(torch.randn(3, d_in, heads * hd) * d_in**-0.5)
            self.out = nn.Linear(heads * hd, heads * hd)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (self.heads, self.hd)).transpose(1, 2) for t in x @ self.qkv[:, None])
            bias = x.new_zeros(x.size(1), x.size(1)).masked_fill(
                torch.ones(x.size(1), x.size(1), device=x.device).tril() == 0, -torch.inf
            )
            y = F.scaled_dot_product_attention(q * self.hd**-0.5, k, v, attn_mask=bias, scale=1.0)
            return self.out(y.transpose(1, 2).flatten(2))

    return PreScaled(12, 3, 5), some_x(4, 7, 12), {"num_heads": 3}


@case(None)
def sdpa_enable_gqa():
    torch.manual_seed(7)

    class GQA(nn.Module):
        def __init__(self, d_in, heads, kv_heads, hd):
            super().__init__()
            self.hd = hd
            self.wq, self.wo = nn.Linear(d_in, heads * hd, bias=False), nn.Linear(heads * hd, heads * hd, bias=False)
            self.wk, self.wv = nn.Linear(d_in, kv_heads * hd, bias=False), nn.Linear(d_in, kv_heads * hd, bias=False)

        def forward(self, x):
            q, k, v = (w(x).unflatten(-1, (-1, self.hd)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return self.wo(y.transpose(1, 2).flatten(2))

    return GQA(10, 6, 2, 4), some_x(2, 6, 10), {"num_heads": 6, "num_kv_heads": 2}


@case(None)
def gqa_repeat_interleave():
    torch.manual_seed(8)

    class GroupedQueryAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, num_kv_groups):
            super().__init__()
            self.num_heads, self.groups, self.head_dim = num_heads, num_kv_groups, d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, num_kv_groups * self.head_dim, bias=False)
            self.W_value = nn.Linear(d_in, num_kv_groups * self.head_dim, bias=False)
            self.out_proj = nn.Linear(d_out, d_out)
            self.dropout = nn.Dropout(0.1)
            self.register_buffer("mask", torch.triu(torch.ones(32, 32), diagonal=1))

        def forward(self, x):
            b, n, _ = x.shape
            q = self.W_query(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
            k = self.W_key(x).view(b, n, self.groups, self.head_dim).transpose(1, 2)
            v = self.W_value(x).view(b, n, self.groups, self.head_dim).transpose(1, 2)
            k = k.repeat_interleave(self.num_heads // self.groups, dim=1)
            v = v.repeat_interleave(self.num_heads // self.groups, dim=1)
            scores = q @ k.transpose(2, 3)
            scores.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)
            weights = self.dropout(torch.softmax(scores / self.head_dim**0.5, dim=-1))
            return self.out_proj((weights @ v).transpose(1, 2).reshape(b, n, -1))

    return GroupedQueryAttention(13, 24, 4, 2), some_x(3, 5, 13), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def mqa_by_broadcast():
    torch.manual_seed(10)

    class MultiQuery(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads, self.scale = heads, dim_head**-0.5
            self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
            self.to_kv = nn.Linear(dim, 2 * dim_head, bias=False)
            self.to_out = nn.Linear(heads * dim_head, heads * dim_head, bias=False)

        def forward(self, x):
            b, n, h = *x.shape[:2], self.heads
            q = self.to_q(x).view(b, n, h, -1).transpose(1, 2) * self.scale
            k, v = self.to_kv(x).chunk(2, dim=-1)
            sim = einsum("b h i d, b j d -> b h i j", q, k)
            sim = sim.masked_fill(torch.ones((n, n), device=x.device, dtype=torch.bool).triu(1), -torch.inf)
            out = einsum("b h i j, b j d -> b h i d", sim.softmax(dim=-1), v)
            return self.to_out(out.transpose(1, 2).reshape(b, n, -1))

    return MultiQuery(11, 5, 4), some_x(3, 6, 11), {"num_heads": 5, "num_kv_heads": 1}


@case(None)
def rotary_half():
    torch.manual_seed(13)

    def rotate_half(t):
        a, b = t.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    class RotaryAttention(nn.Module):
        def __init__(self, d_in, d, heads):
            super().__init__()
            self.heads = heads
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_in, d, bias=False) for _ in range(3))
            self.o_proj = nn.Linear(d, d, bias=False)

        def cos_sin(self, n, hd, like):
            inv = 10000 ** (-torch.arange(0, hd, 2, device=like.device, dtype=like.dtype) / hd)
            f = torch.outer(torch.arange(n, device=like.device, dtype=like.dtype), inv).repeat(1, 2)
            return f.cos(), f.sin()

        def forward(self, x):
            projections = (self.q_proj, self.k_proj, self.v_proj)
            q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in projections)
            cos, sin = self.cos_sin(x.size(1), q.size(-1), x)
            q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
            s = (q @ k.transpose(2, 3)) / math.sqrt(q.size(-1))
            s = s + torch.full_like(s, torch.finfo(s.dtype).min).triu(1)
            return self.o_proj((torch.softmax(s, dim=-1) @ v).transpose(1, 2).flatten(2))

    return RotaryAttention(12, 18, 3), some_x(3, 7, 12), {"num_heads": 3}


@case(None)
def sliding_window():
    torch.manual_seed(17)
    WINDOW = 3

    class LocalAttention(nn.Module):
        def __init__(self, d_in, d, heads):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.o = (nn.Linear(n, d) for n in (d_in, d_in, d_in, d))

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            pos = torch.arange(x.size(1), device=x.device)
            back = pos[:, None] - pos
            s = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill((back < 0) | (back >= WINDOW), -torch.inf)
            return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

    keep = torch.ones(7, 7, dtype=torch.bool).triu(1 - WINDOW)
    return LocalAttention(10, 14, 2), some_x(2, 7, 10), {"num_heads": 2, "keep": keep}


@case(None)
def padding_and_causal():
    torch.manual_seed(18)

    class PaddedAttention(nn.Module):
        def __init__(self, n_in, hidden, heads):
            super().__init__()
            self.heads = heads
            self.query, self.key, self.value, self.dense = (nn.Linear(n, hidden) for n in (n_in, n_in, n_in, hidden))

        def forward(self, x, attention_mask):
            b, n, _ = x.shape
            q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
            allowed = attention_mask[:, None, None, :].bool() & torch.ones(n, n, device=x.device).tril().bool()
            bias = torch.zeros_like(allowed, dtype=x.dtype).masked_fill(~allowed, torch.finfo(x.dtype).min)
            probs = torch.softmax(q @ k.mT / math.sqrt(q.size(-1)) + bias, dim=-1)
            return self.dense((probs @ v).transpose(1, 2).reshape(b, n, -1))

    def attention_mask(x):
        lengths = x.shape[1] - torch.arange(x.shape[0], device=x.device) % 3
        return (torch.arange(x.shape[1], device=x.device) < lengths[:, None]).long()

    x = some_x(3, 6, 12)
    keep = attention_mask(x)[:, None, None, :].bool()
    return PaddedAttention(12, 15, 3), x, {"num_heads": 3, "keep": keep, "call": lambda m, x: m(x, attention_mask(x))}


@case(None)
def pre_norm_with_residual():
    torch.manual_seed(19)

    class Layer(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads = heads
            self.norm = nn.LayerNorm(d)
            self.attn_in, self.attn_out = nn.Linear(d, 3 * d), nn.Linear(d, d)

        def attend(self, h):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.attn_in(h).chunk(3, -1))
            s = q @ k.mT * q.size(-1) ** -0.5
            s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)
            return self.attn_out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

        def forward(self, x):
            return x + self.attend(self.norm(x))

    return Layer(12, 3), some_x(2, 5, 12), {"num_heads": 3}


@case(None)
def post_norm_bert_output():
    torch.manual_seed(20)

    class BertishAttention(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads = heads
            self.self = nn.ModuleDict({name: nn.Linear(d, d) for name in ("query", "key", "value")})
            self.output = nn.ModuleDict({"dense": nn.Linear(d, d), "LayerNorm": nn.LayerNorm(d)})
            self.dropout = nn.Dropout(0.1)

        def transpose_for_scores(self, t):
            return t.view(*t.shape[:-1], self.heads, -1).permute(0, 2, 1, 3)

        def forward(self, hidden_states):
            names = ("query", "key", "value")
            q, k, v = (self.transpose_for_scores(self.self[name](hidden_states)) for name in names)
            probs = self.dropout(torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1))
            context = (probs @ v).permute(0, 2, 1, 3).flatten(-2)
            return self.output["LayerNorm"](self.dropout(self.output["dense"](context)) + hidden_states)

    return BertishAttention(14, 2), some_x(3, 6, 14), {"num_heads": 2, "causal": False}


@case(None)
def kv_cache_token_by_token():
    torch.manual_seed(21)

    class Cached(nn.Module):
        def __init__(self, d_in, d, heads):
            super().__init__()
            self.heads = heads
            self.qkv, self.o = nn.Linear(d_in, 3 * d), nn.Linear(d, d)

        def forward(self, x, past=None):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            if past is not None:
                k, v = (torch.cat(pair, dim=2) for pair in zip(past, (k, v), strict=True))
            hidden = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=x.device).triu(1 + k.size(2) - q.size(2))
            s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(hidden, -torch.inf)
            return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)

    def call(m, x):
        past, ys = None, []
        for t in range(x.shape[1]):
            y, past = m(x[:, t : t + 1], past)
            ys.append(y)
        return torch.cat(ys, dim=1)

    return Cached(9, 12, 3), some_x(2, 6, 9), {"num_heads": 3, "call": call}


@case(None)
def annotated_transformer():
    torch.manual_seed(26)

    def attention(query, key, value, mask=None, dropout=None):
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = scores.softmax(dim=-1)
        if dropout is not None:
            p_attn = dropout(p_attn)
        return torch.matmul(p_attn, value), p_attn

    class MultiHeadedAttention(nn.Module):
        def __init__(self, h, d_in, d_model, dropout=0.1):
            super().__init__()
            self.h, self.attn = h, None
            self.linears = nn.ModuleList([nn.Linear(d_in, d_model) for _ in range(3)] + [nn.Linear(d_model, d_model)])
            self.dropout = nn.Dropout(p=dropout)

        def forward(self, query, key, value, mask=None):
            mask = mask.unsqueeze(1) if mask is not None else None
            n = query.size(0)
            parts = zip(self.linears, (query, key, value), strict=False)
            q, k, v = [lin(x).view(n, x.size(1), self.h, -1).transpose(1, 2) for lin, x in parts]
            x, self.attn = attention(q, k, v, mask=mask, dropout=self.dropout)
            return self.linears[-1](x.transpose(1, 2).contiguous().view(n, query.size(1), -1))

    def call(m, x):
        n = x.shape[1]
        return m(x, x, x, torch.ones(1, n, n, device=x.device, dtype=torch.uint8).tril())

    return MultiHeadedAttention(3, 11, 15), some_x(2, 6, 11), {"num_heads": 3, "call": call}


@case(None)
def loops_over_everything():
    torch.manual_seed(28)

    class Naive(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(a, b) * 0.3) for _ in range(3))

        def forward(self, x):
            samples = []
            for sample in x:
                q, k, v = sample @ self.wq, sample @ self.wk, sample @ self.wv
                rows = []
                for i in range(len(sample)):
                    scores = torch.stack([q[i] @ k[j] for j in range(i + 1)]) / math.sqrt(k.shape[1])
                    shares = torch.softmax(scores, dim=0)
                    rows.append(sum(share * v[j] for j, share in enumerate(shares)))
                samples.append(torch.stack(rows))
            return torch.stack(samples)

    return Naive(8, 5), some_x(2, 4, 8), {"num_heads": 1}


@case(None)
def vmapped_function():
    g = torch.Generator().manual_seed(29)
    params = {
        "qkv": torch.randn(3, 4, 9, 5, generator=g) * 0.3,
        "out": torch.randn(4, 5, 20, generator=g) * 0.3,
    }

    def one_head(q, k, v):
        logits = q @ k.T / math.sqrt(q.shape[-1])
        i = torch.arange(q.shape[0], device=q.device)
        return torch.where(i[:, None] >= i, logits, -torch.inf).softmax(-1) @ v

    def one_sample(x):
        q, k, v = torch.einsum("td,phde->phte", x, params["qkv"].to(x))
        return torch.einsum("hte,heo->to", torch.vmap(one_head)(q, k, v), params["out"].to(x))

    return torch.vmap(one_sample), some_x(3, 6, 9), {"num_heads": 4}


@case(None)
def keys_by_queries_softmax_over_rows():
    torch.manual_seed(32)

    class Columns(nn.Module):
        def __init__(self, d_in, d):
            super().__init__()
            self.Wq, self.Wk, self.Wv = (nn.Linear(d_in, d, bias=False) for _ in range(3))

        def forward(self, x):
            q, k, v = self.Wq(x).mT, self.Wk(x).mT, self.Wv(x).mT  # columns are tokens
            s = k.mT @ q / math.sqrt(q.size(1))
            s = s.masked_fill(torch.ones_like(s).tril(-1).bool(), -torch.inf)
            return (v @ torch.softmax(s, dim=1)).mT

    return Columns(10, 6), some_x(3, 5, 10), {"num_heads": 1}


@case(None)
def upcast_softmax_cast_back():
    torch.manual_seed(35)

    class Careful(nn.Module):
        def __init__(self, d_in, d, heads):
            super().__init__()
            self.heads = heads
            self.qkv, self.o = nn.Linear(d_in, 3 * d), nn.Linear(d, d)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            s = (q * q.size(-1) ** -0.5) @ k.mT
            s = s.masked_fill(torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1), -torch.inf)
            wide = torch.promote_types(s.dtype, torch.float32)
            p = F.softmax(s, dim=-1, dtype=wide).to(v.dtype)
            return self.o((p @ v).transpose(1, 2).reshape(b, n, -1))

    return Careful(9, 20, 4), some_x(3, 6, 9), {"num_heads": 4}


@case(None)
def neox_packed_per_head():
    torch.manual_seed(40)

    def partial_rotary(t, rot):
        turned, kept = t[..., :rot], t[..., rot:]
        inv = 10000 ** (-torch.arange(0, rot, 2, device=t.device, dtype=t.dtype) / rot)
        angle = (torch.arange(t.shape[-2], device=t.device, dtype=t.dtype)[:, None] * inv).repeat(1, 2)
        a, b = turned.chunk(2, dim=-1)
        return torch.cat((turned * angle.cos() + torch.cat((-b, a), dim=-1) * angle.sin(), kept), dim=-1)

    class NeoXAttention(nn.Module):
        def __init__(self, d_in, heads, hd, rotary_dims):
            super().__init__()
            self.heads, self.hd, self.rotary_dims = heads, hd, rotary_dims
            self.query_key_value = nn.Linear(d_in, heads * 3 * hd)
            self.dense = nn.Linear(heads * hd, heads * hd)
            self.register_buffer("bias", torch.tril(torch.ones(32, 32, dtype=torch.bool))[None, None])

        def forward(self, hidden_states):
            b, n, _ = hidden_states.shape
            qkv = self.query_key_value(hidden_states).view(b, n, self.heads, 3 * self.hd).transpose(1, 2)
            q, k, v = qkv.chunk(3, dim=-1)
            q, k = partial_rotary(q, self.rotary_dims), partial_rotary(k, self.rotary_dims)
            scores = torch.matmul(q, k.transpose(-1, -2)) * self.hd**-0.5
            mask_value = torch.tensor(torch.finfo(scores.dtype).min, dtype=scores.dtype, device=scores.device)
            probs = torch.where(self.bias[:, :, :n, :n], scores, mask_value).softmax(dim=-1)
            return self.dense(torch.matmul(probs, v).transpose(1, 2).reshape(b, n, self.heads * self.hd))

    return NeoXAttention(14, 3, 7, 4), some_x(2, 5, 14), {"num_heads": 3}
