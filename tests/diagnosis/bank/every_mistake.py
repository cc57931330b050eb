"""Attention code with one mistake each: three cases for each id of the catalogue."""
# ruff: noqa: F841, RUF005, RUF059

import math
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import einsum

from .case import collector, some_x

CASES, case = collector()


# masks


@case("mask-discarded")
def gpt_block_with_bias_buffer():
    torch.manual_seed(1)

    class CausalSelfAttention(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.c_attn = nn.Linear(config.n_in, 3 * config.n_embd, bias=config.bias)
            self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
            self.attn_dropout = nn.Dropout(config.dropout)
            self.resid_dropout = nn.Dropout(config.dropout)
            self.n_head, self.n_embd = config.n_head, config.n_embd
            tril = torch.tril(torch.ones(config.block_size, config.block_size))
            self.register_buffer("bias", tril.view(1, 1, config.block_size, config.block_size))

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
            q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in (q, k, v))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))  # wrong
            att = self.attn_dropout(F.softmax(att, dim=-1))
            y = (att @ v).transpose(1, 2).contiguous().view(B, T, self.n_embd)
            return self.resid_dropout(self.c_proj(y))

    config = SimpleNamespace(n_in=13, n_embd=20, n_head=4, block_size=32, dropout=0.1, bias=True)
    return CausalSelfAttention(config), some_x(3, 6, 13), {"num_heads": 4}


@case("mask-discarded")
def pure_function_of_params():
    g = torch.Generator().manual_seed(2)
    params = {
        "wq": torch.randn(9, 3, 5, generator=g) * 0.4,
        "wk": torch.randn(9, 3, 5, generator=g) * 0.4,
        "wv": torch.randn(9, 3, 5, generator=g) * 0.4,
        "wo": torch.randn(3, 5, 14, generator=g) * 0.4,
    }

    def apply(x):
        p = {name: w.to(x) for name, w in params.items()}
        q, k, v = (torch.einsum("btd,dhk->bhtk", x, p[name]) for name in ("wq", "wk", "wv"))
        logits = torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(q.shape[-1])
        pos = torch.arange(x.shape[1], device=x.device)
        masked = torch.where(pos[:, None] >= pos[None, :], logits, torch.finfo(x.dtype).min)
        probs = torch.softmax(logits, dim=-1)  # wrong
        return torch.einsum("bhts,bhsk,hkd->btd", probs, v, p["wo"])

    return apply, some_x(2, 7, 9), {"num_heads": 3}


@case("mask-discarded")
def mixin_that_masks():
    torch.manual_seed(3)

    class MaskMixin:
        def mask_future(self, scores):
            n = scores.size(-1)
            future = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu(1)
            return scores.masked_fill(future, -torch.inf)

    class DecoderAttention(MaskMixin, nn.Module):
        def __init__(self, input_dim, hidden, heads):
            super().__init__()
            self.heads, self.size = heads, hidden // heads
            self.query_layer = nn.Linear(input_dim, hidden)
            self.key_layer = nn.Linear(input_dim, hidden)
            self.value_layer = nn.Linear(input_dim, hidden)
            self.dense = nn.Linear(hidden, hidden)

        def shape(self, t):
            return t.unflatten(-1, (self.heads, self.size)).transpose(1, 2)

        def forward(self, hidden_states):
            query = self.shape(self.query_layer(hidden_states)) / self.size**0.5
            key = self.shape(self.key_layer(hidden_states))
            value = self.shape(self.value_layer(hidden_states))
            scores = torch.matmul(query, key.mT)
            self.mask_future(scores)  # wrong
            context = torch.matmul(scores.softmax(-1), value)
            return self.dense(context.transpose(1, 2).flatten(2))

    return DecoderAttention(10, 14, 2), some_x(3, 5, 10), {"num_heads": 2}


@case("no-causal-mask")
def mask_argument_nobody_reads():
    torch.manual_seed(4)

    class MultiHeadedAttention(nn.Module):
        def __init__(self, d_in, d_model, h, dropout=0.1):
            super().__init__()
            self.h, self.d_k = h, d_model // h
            self.linears = nn.ModuleList([nn.Linear(d_in, d_model) for _ in range(3)] + [nn.Linear(d_model, d_model)])
            self.dropout = nn.Dropout(p=dropout)

        def attention(self, query, key, value, mask=None):
            scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
            p_attn = self.dropout(scores.softmax(dim=-1))
            return torch.matmul(p_attn, value), p_attn

        def forward(self, query, key, value, mask=None):
            if mask is not None:
                mask = mask.unsqueeze(1)
            n = query.size(0)
            query, key, value = [
                lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
                for lin, x in zip(self.linears[:3], (query, key, value), strict=True)
            ]
            x, self.attn = self.attention(query, key, value, mask=mask)
            return self.linears[-1](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))

    def call(m, x):
        n = x.shape[1]
        return m(x, x, x, torch.ones(1, n, n, dtype=torch.bool, device=x.device).tril())

    return MultiHeadedAttention(11, 18, 3), some_x(2, 6, 11), {"num_heads": 3, "call": call}


@case("no-causal-mask")
def fused_kernel_without_flag():
    torch.manual_seed(5)

    class Attention(nn.Module):
        def __init__(self, dim, dim_head=6, heads=5):
            super().__init__()
            inner = dim_head * heads
            self.heads = heads
            self.to_qkv = nn.Linear(dim, inner * 3, bias=False)
            self.to_out = nn.Sequential(nn.Linear(inner, inner), nn.Dropout(0.1))

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.to_qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            out = F.scaled_dot_product_attention(q, k, v)  # wrong
            return self.to_out(out.permute(0, 2, 1, 3).reshape(b, n, -1))

    return Attention(17), some_x(4, 7, 17), {"num_heads": 5}


@case("no-causal-mask")
def homework_with_for_loops():
    torch.manual_seed(6)

    class MyAttention(nn.Module):
        def __init__(self, emb, out):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(emb, out), nn.Linear(emb, out), nn.Linear(emb, out)

        def forward(self, seq):
            Q, K, V = self.q(seq), self.k(seq), self.v(seq)
            d = Q.shape[-1]
            rows = []
            for t in range(seq.shape[1]):
                e = (Q[:, t : t + 1] * K).sum(-1) / d**0.5
                a = torch.softmax(e, dim=-1)
                rows.append((a.unsqueeze(-1) * V).sum(dim=1))
            return torch.stack(rows, dim=1)

    return MyAttention(8, 5), some_x(2, 4, 8), {"num_heads": 1}


@case("mask-inverted")
def sdpa_given_a_hide_mask():
    torch.manual_seed(7)

    class SelfAttn(nn.Module):
        def __init__(self, width_in, width, nhead):
            super().__init__()
            self.nhead = nhead
            self.in_proj = nn.Linear(width_in, 3 * width)
            self.out_proj = nn.Linear(width, width)

        def forward(self, src):
            L = src.size(1)
            q, k, v = (
                t.unflatten(-1, (self.nhead, -1)).transpose(1, 2) for t in torch.chunk(self.in_proj(src), 3, dim=-1)
            )
            attn_mask = torch.triu(torch.ones(L, L, dtype=torch.bool, device=src.device), diagonal=1)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)  # wrong
            return self.out_proj(y.transpose(1, 2).flatten(-2))

    return SelfAttn(12, 21, 3), some_x(2, 5, 12), {"num_heads": 3}


@case("mask-inverted")
def keep_mask_into_torch_mha():
    torch.manual_seed(8)

    class Block(nn.Module):
        def __init__(self, features, embed, n):
            super().__init__()
            self.embed = nn.Linear(features, embed)
            self.mha = nn.MultiheadAttention(embed, n, dropout=0.1, batch_first=True)

        def forward(self, inputs):
            h = self.embed(inputs)
            steps = torch.arange(h.size(1), device=h.device)
            can_see = steps[None, :] <= steps[:, None]
            return self.mha(h, h, h, attn_mask=can_see, need_weights=False)[0]  # wrong

    return Block(10, 16, 4), some_x(3, 6, 10), {"num_heads": 4}


@case("mask-inverted")
def additive_bias_from_tril():
    torch.manual_seed(9)

    class Head(nn.Module):
        def __init__(self, n_embd, head_size):
            super().__init__()
            self.key = nn.Linear(n_embd, head_size, bias=False)
            self.query = nn.Linear(n_embd, head_size, bias=False)
            self.value = nn.Linear(n_embd, head_size, bias=False)
            self.register_buffer("tril", torch.tril(torch.ones(64, 64)))

        def forward(self, x):
            B, T, C = x.shape
            wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5
            wei = wei.masked_fill(self.tril[:T, :T] == 1, -1e9)  # wrong
            return F.softmax(wei, dim=-1) @ self.value(x)

    class MultiHead(nn.Module):
        def __init__(self, num, n_embd, head_size):
            super().__init__()
            self.heads = nn.ModuleList(Head(n_embd, head_size) for _ in range(num))
            self.proj = nn.Linear(num * head_size, num * head_size)

        def forward(self, x):
            return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))

    return MultiHead(2, 15, 4), some_x(4, 7, 15), {"num_heads": 2}


@case("mask-off-by-one")
def triu_with_two():
    torch.manual_seed(10)

    class CausalAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.1):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.out_proj = nn.Linear(d_out, d_out)
            self.dropout = nn.Dropout(dropout)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=2))  # wrong

        def forward(self, x):
            b, num_tokens, _ = x.shape
            keys = self.W_key(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            values = self.W_value(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            attn_scores = queries @ keys.transpose(2, 3)
            attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
            attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
            context_vec = (self.dropout(attn_weights) @ values).transpose(1, 2)
            return self.out_proj(context_vec.contiguous().view(b, num_tokens, -1))

    return CausalAttention(9, 12, 64, 3), some_x(2, 6, 9), {"num_heads": 3}


@case("mask-off-by-one")
def strict_comparison_of_positions():
    torch.manual_seed(11)

    def make_causal_bias(n, like):
        i = torch.arange(n, device=like.device)
        allowed = i.view(-1, 1) > i.view(1, -1)  # wrong
        return torch.zeros(n, n, device=like.device, dtype=like.dtype).masked_fill(~allowed, -1e4)

    class TinyAttention(nn.Module):
        def __init__(self, c_in, c):
            super().__init__()
            self.qkv = nn.Parameter(torch.randn(3, c_in, c) * c_in**-0.5)

        def forward(self, x):
            q, k, v = torch.einsum("bnc,pcd->pbnd", x, self.qkv)
            sim = torch.baddbmm(make_causal_bias(x.size(1), x), q, k.mT, alpha=q.size(-1) ** -0.5)
            return torch.bmm(sim.softmax(dim=2), v)

    return TinyAttention(14, 7), some_x(3, 5, 14), {"num_heads": 1}


@case("mask-off-by-one")
def slice_one_too_long_in_token_loop():
    torch.manual_seed(12)

    class LoopedDecoder(nn.Module):
        def __init__(self, n_in, n_units, n_heads):
            super().__init__()
            self.n_heads = n_heads
            self.proj = nn.ModuleDict({name: nn.Linear(n_in, n_units) for name in "qkv"})
            self.final = nn.Linear(n_units, n_units)

        def split(self, name, x):
            return self.proj[name](x).unflatten(2, (self.n_heads, -1))

        def forward(self, x):
            q, k, v = (self.split(name, x) for name in "qkv")
            outputs = []
            for t in range(x.shape[1]):
                past_k, past_v = k[:, : t + 2], v[:, : t + 2]  # wrong
                score = torch.einsum("bhd,bshd->bhs", q[:, t], past_k) / math.sqrt(q.shape[-1])
                outputs.append(torch.einsum("bhs,bshd->bhd", score.softmax(-1), past_v).flatten(1))
            return self.final(torch.stack(outputs, 1))

    return LoopedDecoder(11, 16, 2), some_x(2, 7, 11), {"num_heads": 2}


@case("mask-transposed")
def arange_in_the_other_order():
    torch.manual_seed(13)

    class Attention(nn.Module):
        def __init__(self, *, dim, heads, dim_head):
            super().__init__()
            self.scale, self.heads = dim_head**-0.5, heads
            self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
            self.to_kv = nn.Linear(dim, heads * dim_head * 2, bias=False)
            self.to_out = nn.Linear(heads * dim_head, heads * dim_head, bias=False)

        def forward(self, x):
            b, n, _, h = *x.shape, self.heads
            q, k, v = (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1))
            q, k, v = (t.reshape(b, n, h, -1).permute(0, 2, 1, 3) for t in (q, k, v))
            sim = einsum("b h i d, b h j d -> b h i j", q * self.scale, k)
            seq = torch.arange(n, device=x.device)
            causal_mask = seq[:, None] <= seq[None, :]  # wrong
            sim = sim.masked_fill(~causal_mask, -torch.finfo(sim.dtype).max)
            out = einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
            return self.to_out(out.permute(0, 2, 1, 3).reshape(b, n, -1))

    return Attention(dim=13, heads=3, dim_head=7), some_x(4, 6, 13), {"num_heads": 3}


@case("mask-transposed")
def upper_triangle_for_sdpa():
    torch.manual_seed(14)

    class MHA(nn.Module):
        def __init__(self, d_in, d_out, n_head):
            super().__init__()
            self.n_head = n_head
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_in, d_out) for _ in range(3))
            self.o_proj = nn.Linear(d_out, d_out)
            self.register_buffer("visible", torch.ones(48, 48, dtype=torch.bool).triu(), persistent=False)  # wrong

        def forward(self, x):
            B, T, _ = x.shape
            heads = (B, T, self.n_head, -1)
            q, k, v = [p(x).view(heads).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.visible[:T, :T])
            return self.o_proj(y.transpose(1, 2).reshape(B, T, -1))

    return MHA(16, 10, 2), some_x(2, 5, 16), {"num_heads": 2}


@case("mask-transposed")
def keys_times_queries_then_turned():
    torch.manual_seed(15)

    class LectureAttention(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.Wq = nn.Parameter(torch.empty(n_in, n_out))
            self.Wk = nn.Parameter(torch.empty(n_in, n_out))
            self.Wv = nn.Parameter(torch.empty(n_in, n_out))
            for w in self.parameters():
                nn.init.xavier_normal_(w)

        def forward(self, X):
            n = X.shape[-2]
            Q, K, V = X @ self.Wq, X @ self.Wk, X @ self.Wv
            S = K @ Q.transpose(-1, -2) / math.sqrt(Q.shape[-1])  # keys x queries
            below = torch.ones_like(S[0]).tril(-1).bool()
            S = S.masked_fill(below.T, -torch.inf)  # wrong
            A = torch.softmax(S.transpose(-1, -2), dim=-1)
            return A @ V

    return LectureAttention(10, 6), some_x(3, 8, 10), {"num_heads": 1}


@case("mask-after-softmax")
def weights_times_tril():
    torch.manual_seed(16)

    class MaskedSelfAttention(nn.Module):
        def __init__(self, embed_dim, out_dim):
            super().__init__()
            self.query = nn.Linear(embed_dim, out_dim)
            self.key = nn.Linear(embed_dim, out_dim)
            self.value = nn.Linear(embed_dim, out_dim)
            self.softmax = nn.Softmax(dim=-1)

        def forward(self, x):
            q, k, v = self.query(x), self.key(x), self.value(x)
            scores = torch.bmm(q, k.transpose(1, 2)) / (q.size(-1) ** 0.5)
            attention = self.softmax(scores)
            attention = torch.tril(attention)  # wrong
            return torch.bmm(attention, v)

    return MaskedSelfAttention(12, 7), some_x(2, 6, 12), {"num_heads": 1}


@case("mask-after-softmax")
def hf_eager_function():
    torch.manual_seed(17)

    def eager_attention(module, query, key, value, mask):
        attn_weights = torch.matmul(query, key.transpose(2, 3)) * module.scaling
        attn_weights = nn.functional.softmax(attn_weights, dim=-1)
        attn_weights = attn_weights * mask.to(attn_weights.dtype)  # wrong
        attn_weights = nn.functional.dropout(attn_weights, p=module.p, training=module.training)
        return torch.matmul(attn_weights, value).transpose(1, 2).contiguous(), attn_weights

    @dataclass
    class Config:
        input_size: int = 14
        hidden_size: int = 24
        num_attention_heads: int = 4
        attention_dropout: float = 0.1

    class FooAttention(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.head_dim = config.hidden_size // config.num_attention_heads
            self.scaling, self.p = self.head_dim**-0.5, config.attention_dropout
            self.q_proj = nn.Linear(config.input_size, config.hidden_size)
            self.k_proj = nn.Linear(config.input_size, config.hidden_size)
            self.v_proj = nn.Linear(config.input_size, config.hidden_size)
            self.o_proj = nn.Linear(config.hidden_size, config.hidden_size)

        def forward(self, hidden_states, attention_mask):
            input_shape = hidden_states.shape[:-1]
            hidden_shape = (*input_shape, -1, self.head_dim)
            q = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
            k = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
            v = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
            out, weights = eager_attention(self, q, k, v, attention_mask)
            return self.o_proj(out.reshape(*input_shape, -1)), weights

    def call(m, x):
        n = x.shape[1]
        return m(x, torch.ones(1, 1, n, n, dtype=torch.bool, device=x.device).tril())[0]

    return FooAttention(Config()), some_x(3, 5, 14), {"num_heads": 4, "call": call}


@case("mask-after-softmax")
def exponentials_by_hand_and_fill_late():
    torch.manual_seed(18)
    W = {name: torch.randn(8, 9) / 3 for name in ("q", "k", "v")}
    W_out = torch.randn(9, 9) / 3

    def softmax(z):
        e = (z - z.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    def attend(x, heads=3):
        b, t, _ = x.shape
        q, k, v = ((x @ W[n].to(x)).reshape(b, t, heads, -1).swapaxes(1, 2) for n in ("q", "k", "v"))
        a = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))
        hidden = torch.ones(t, t, device=x.device).triu(1) > 0
        a = a.masked_fill(hidden, 0.0)  # wrong
        return (a @ v).swapaxes(1, 2).reshape(b, t, -1) @ W_out.to(x)

    return attend, some_x(2, 7, 8), {"num_heads": 3}


@case("mask-with-zero")
def tril_of_scores():
    torch.manual_seed(19)

    class AttentionLayer(nn.Module):
        def __init__(self, units_in, units, heads):
            super().__init__()
            self.heads = heads
            self.kernel = nn.Linear(units_in, 3 * units)
            self.merge = nn.Linear(units, units)

        def build_scores(self, q, k):
            return torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5

        def forward(self, x):
            q, k, v = self.kernel(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
            scores = self.build_scores(q, k).tril()  # wrong
            out = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)
            return self.merge(out.flatten(2))

    return AttentionLayer(9, 15, 3), some_x(2, 6, 9), {"num_heads": 3}


@case("mask-with-zero")
def masked_fill_zero_in_head_list():
    torch.manual_seed(20)

    class OneHead(nn.Module):
        def __init__(self, dim, size):
            super().__init__()
            self.wq, self.wk, self.wv = nn.Linear(dim, size), nn.Linear(dim, size), nn.Linear(dim, size)

        def forward(self, x, mask):
            s = self.wq(x) @ self.wk(x).mT / math.sqrt(self.wq.out_features)
            s = s.masked_fill(mask == 0, 0)  # wrong
            return torch.softmax(s, -1) @ self.wv(x)

    class ManyHeads(nn.Module):
        def __init__(self, dim, size, n):
            super().__init__()
            self.children_heads = nn.ModuleList([OneHead(dim, size) for _ in range(n)])
            self.lin = nn.Linear(n * size, n * size)

        def forward(self, x):
            mask = torch.tril(torch.ones(x.size(1), x.size(1), device=x.device))
            return self.lin(torch.cat([h(x, mask) for h in self.children_heads], -1))

    return ManyHeads(13, 5, 4), some_x(3, 6, 13), {"num_heads": 4}


@case("mask-with-zero")
def where_with_zeros_like():
    torch.manual_seed(21)

    class Attn(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.norm = nn.LayerNorm(i)
            self.qk = nn.Linear(i, 2 * o, bias=False)
            self.vv = nn.Linear(i, o, bias=False)

        def forward(self, x):
            x = self.norm(x)
            q, k = self.qk(x).tensor_split(2, -1)
            logits = q.div(q.size(-1) ** 0.5).matmul(k.transpose(-1, -2))
            ok = torch.ones_like(logits, dtype=torch.bool).tril()
            logits = torch.where(ok, logits, torch.zeros_like(logits))  # wrong
            return logits.softmax(-1).matmul(self.vv(x))

    return Attn(10, 8), some_x(4, 5, 10), {"num_heads": 1}


@case("causal-top-left")
def is_causal_while_decoding():
    torch.manual_seed(22)

    class CachedAttention(nn.Module):
        def __init__(self, d_in, d, h):
            super().__init__()
            self.h = h
            self.wqkv = nn.Linear(d_in, 3 * d, bias=False)
            self.wo = nn.Linear(d, d, bias=False)

        def forward(self, x, past=None):
            b, t, _ = x.shape
            q, k, v = self.wqkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
            if past is not None:
                k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # wrong
            return self.wo(y.transpose(1, 2).reshape(b, t, -1)), (k, v)

    def call(m, x):
        prompt, past = m(x[:, :-1])
        last, _ = m(x[:, -1:], past)
        return torch.cat((prompt, last), dim=1)

    return CachedAttention(11, 12, 2), some_x(2, 6, 11), {"num_heads": 2, "call": call}


@case("causal-top-left")
def buffer_sliced_from_the_corner():
    torch.manual_seed(23)

    class GPTAttention(nn.Module):
        def __init__(self, nx, n_state, n_head, n_ctx=32):
            super().__init__()
            self.n_head = n_head
            self.c_attn, self.c_proj = nn.Linear(nx, 3 * n_state), nn.Linear(n_state, n_state)
            self.register_buffer("bias", torch.tril(torch.ones(n_ctx, n_ctx)).bool().view(1, 1, n_ctx, n_ctx))

        def split_heads(self, x):
            return x.view(*x.shape[:-1], self.n_head, -1).permute(0, 2, 1, 3)

        def _attn(self, q, k, v):
            w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
            nd, ns = w.size(-2), w.size(-1)
            w = torch.where(self.bias[:, :, :nd, :ns], w, torch.finfo(w.dtype).min)  # wrong
            return torch.matmul(torch.softmax(w, dim=-1), v)

        def forward(self, x, layer_past=None):
            query, key, value = map(self.split_heads, self.c_attn(x).chunk(3, dim=2))
            if layer_past is not None:
                key = torch.cat((layer_past[0], key), dim=-2)
                value = torch.cat((layer_past[1], value), dim=-2)
            a = self._attn(query, key, value).permute(0, 2, 1, 3).flatten(2)
            return self.c_proj(a), torch.stack((key, value))

    def call(m, x):
        outs, past = [], None
        for chunk in x.split(2, dim=1):
            out, past = m(chunk, past)
            outs.append(out)
        return torch.cat(outs, 1)

    return GPTAttention(10, 12, 3), some_x(3, 7, 10), {"num_heads": 3, "call": call}


@case("causal-top-left")
def one_head_chunk_by_chunk():
    torch.manual_seed(24)

    class Streaming(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(a, b), nn.Linear(a, b), nn.Linear(a, b)

        def step(self, new, memory):
            memory = new if memory is None else torch.cat([memory, new], dim=1)
            q, k, v = self.q(new), self.k(memory), self.v(memory)
            blocked = torch.ones(q.size(1), k.size(1), dtype=torch.bool, device=q.device).triu(1)  # wrong
            s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(blocked, -math.inf)
            return s.softmax(-1) @ v, memory

        def forward(self, x):
            memory, out = None, []
            for piece in torch.split(x, 3, dim=1):
                y, memory = self.step(piece, memory)
                out.append(y)
            return torch.cat(out, dim=1)

    return Streaming(8, 6), some_x(2, 7, 8), {"num_heads": 1, "call": lambda m, x: m(x)}


@case("mask-rank")
def padding_added_per_head():
    torch.manual_seed(25)

    class EncoderDecoderAttention(nn.Module):
        def __init__(self, d_in, d_model, n_heads):
            super().__init__()
            self.n_heads = n_heads
            self.fc_q, self.fc_k, self.fc_v = (nn.Linear(d_in, d_model) for _ in range(3))
            self.fc_o = nn.Linear(d_model, d_model)

        def forward(self, x, mask):
            bs, n = x.shape[:2]
            Q, K, V = (
                f(x).view(bs, n, self.n_heads, -1).permute(0, 2, 1, 3) for f in (self.fc_q, self.fc_k, self.fc_v)
            )
            energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / math.sqrt(Q.shape[-1])
            energy = energy.masked_fill(mask == 0, float("-inf"))  # wrong
            z = torch.matmul(torch.softmax(energy, dim=-1), V).permute(0, 2, 1, 3).contiguous()
            return self.fc_o(z.view(bs, n, -1))

    def valid(x):
        cut = torch.arange(x.shape[0], device=x.device) % 3
        return torch.arange(x.shape[1], device=x.device) < (x.shape[1] - cut)[:, None]

    def call(m, x):
        n = x.shape[1]
        return m(x, valid(x)[:, None, :] & torch.ones(n, n, dtype=torch.bool, device=x.device).tril())

    x = some_x(3, 6, 11)
    keep = valid(x)[:, None, None, :]
    return EncoderDecoderAttention(11, 15, 3), x, {"num_heads": 3, "keep": keep, "call": call}


@case("mask-rank")
def one_unsqueeze_too_many():
    torch.manual_seed(26)

    class SelfAttention(nn.Module):
        def __init__(self, input_size, embed_size, heads):
            super().__init__()
            self.heads, self.head_dim = heads, embed_size // heads
            self.values = nn.Linear(input_size, embed_size, bias=False)
            self.keys = nn.Linear(input_size, embed_size, bias=False)
            self.queries = nn.Linear(input_size, embed_size, bias=False)
            self.fc_out = nn.Linear(embed_size, embed_size)

        def forward(self, x, mask):
            N, L, _ = x.shape
            values = self.values(x).reshape(N, L, self.heads, self.head_dim).transpose(1, 2)
            keys = self.keys(x).reshape(N, L, self.heads, self.head_dim).transpose(1, 2)
            queries = self.queries(x).reshape(N, L, self.heads, self.head_dim).transpose(1, 2)
            energy = queries @ keys.transpose(2, 3) / self.head_dim**0.5
            energy = energy.masked_fill(mask.unsqueeze(1) == 0, float("-inf"))  # wrong
            out = torch.softmax(energy, dim=-1) @ values
            return self.fc_out(out.transpose(1, 2).reshape(N, L, self.heads * self.head_dim))

    def call(m, x):
        n = x.shape[1]
        return m(x, torch.tril(torch.ones(1, 1, n, n, device=x.device)))

    return SelfAttention(9, 20, 4), some_x(3, 5, 9), {"num_heads": 4, "call": call}


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


@case("nan-on-hidden-rows")
def left_padded_prompts():
    torch.manual_seed(28)

    class PromptAttention(nn.Module):
        def __init__(self, n_in, n_embd, n_head):
            super().__init__()
            self.n_head = n_head
            self.qkv, self.proj = nn.Linear(n_in, 3 * n_embd), nn.Linear(n_embd, n_embd)

        def forward(self, x, attention_mask):
            B, T, _ = x.shape
            q, k, v = self.qkv(x).view(B, T, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
            causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            allowed = causal & attention_mask[:, None, None, :].bool()
            att = (q @ k.transpose(-1, -2)) * k.size(-1) ** -0.5
            att = att.masked_fill(~allowed, float("-inf"))  # wrong
            att = F.softmax(att, dim=-1)  # wrong
            return self.proj((att @ v).transpose(1, 2).reshape(B, T, -1))

    def padding(x):
        start = torch.arange(x.shape[0], device=x.device) % 3
        return (torch.arange(x.shape[1], device=x.device) >= start[:, None]).long()

    x = some_x(3, 7, 12)
    keep = padding(x)[:, None, None, :].bool()
    return PromptAttention(12, 10, 2), x, {"num_heads": 2, "keep": keep, "call": lambda m, x: m(x, padding(x))}


@case("nan-on-hidden-rows")
def torch_mha_that_returns_weights():
    torch.manual_seed(29)

    class Reader(nn.Module):
        def __init__(self, d, e, h):
            super().__init__()
            self.inp = nn.Linear(d, e)
            self.attn = nn.MultiheadAttention(e, h, batch_first=True)

        def forward(self, x, is_pad):
            x = self.inp(x)
            n = x.size(1)
            future = torch.triu(torch.ones(n, n, dtype=torch.bool, device=x.device), 1)
            out, self.last_weights = self.attn(x, x, x, key_padding_mask=is_pad, attn_mask=future)  # wrong
            return out

    def is_pad(x):
        pad = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        pad[0, :2] = True
        return pad

    x = some_x(2, 6, 10)
    keep = ~is_pad(x)[:, None, None, :]
    return Reader(10, 12, 3), x, {"num_heads": 3, "keep": keep, "call": lambda m, x: m(x, is_pad(x))}


@case("nan-on-hidden-rows")
def document_ids_divided_by_zero():
    torch.manual_seed(30)

    class PackedAttention(nn.Module):
        def __init__(self, d_in, d):
            super().__init__()
            self.wq, self.wk, self.wv = (nn.Linear(d_in, d, bias=False) for _ in range(3))

        def forward(self, x, doc):
            s = self.wq(x) @ self.wk(x).mT * self.wq.out_features**-0.5
            same = (doc[:, :, None] == doc[:, None, :]) & (doc >= 0)[:, None, :]
            e = torch.exp(s - s.amax(dim=-1, keepdim=True)) * same
            p = e / e.sum(dim=-1, keepdim=True)  # wrong
            return p @ self.wv(x)

    def docs(x):
        ids = (torch.arange(x.shape[1], device=x.device) // 2).repeat(x.shape[0], 1)
        ids[0, -1] = -1
        return ids

    x = some_x(2, 7, 9)
    d = docs(x)
    keep = ((d[:, :, None] == d[:, None, :]) & (d >= 0)[:, None, :]).unsqueeze(1)
    options = {"num_heads": 1, "causal": False, "keep": keep, "call": lambda m, x: m(x, docs(x))}
    return PackedAttention(9, 6), x, options


# scores


@case("scores-from-values")
def interview_whiteboard():
    torch.manual_seed(31)

    class Solution(nn.Module):
        def __init__(self, d_in, d_k):
            super().__init__()
            self.Q, self.K, self.V = (nn.Linear(d_in, d_k, bias=False) for _ in range(3))

        def forward(self, x):
            q, k, v = self.Q(x), self.K(x), self.V(x)
            scores = q @ v.transpose(-1, -2) / math.sqrt(k.size(-1))  # wrong
            mask = torch.tril(torch.ones(x.size(1), x.size(1), device=x.device)).bool()
            scores = scores.masked_fill(~mask, float("-inf"))
            return torch.softmax(scores, dim=-1) @ v

    return Solution(9, 6), some_x(2, 5, 9), {"num_heads": 1}


@case("scores-from-values")
def unpacked_in_another_order():
    torch.manual_seed(32)

    class FusedAttention(nn.Module):
        def __init__(self, d_in, num_heads, head_dim):
            super().__init__()
            self.num_heads = num_heads
            self.fused = nn.Parameter(torch.randn(d_in, 3, num_heads, head_dim) * 0.3)
            self.out = nn.Parameter(torch.randn(num_heads, head_dim, num_heads * head_dim) * 0.3)

        def forward(self, x):
            T = x.shape[1]
            q, k, v = torch.einsum("btc,cphd->pbhtd", x, self.fused)
            dots = torch.einsum("bhid,bhjd->bhij", q, v) * q.shape[-1] ** -0.5  # wrong
            future = torch.ones(T, T, device=x.device, dtype=torch.bool).triu(1)
            probs = dots.masked_fill(future, -torch.inf).softmax(-1)
            return torch.einsum("bhij,bhjd,hde->bie", probs, v, self.out)

    return FusedAttention(13, 3, 5), some_x(3, 6, 13), {"num_heads": 3}


@case("scores-from-values")
def vision_tokens():
    torch.manual_seed(33)

    class Attention(nn.Module):
        def __init__(self, in_chans, dim, num_heads=4, qkv_bias=True, attn_drop=0.1, proj_drop=0.1):
            super().__init__()
            self.num_heads = num_heads
            self.scale = (dim // num_heads) ** -0.5
            self.qkv = nn.Linear(in_chans, dim * 3, bias=qkv_bias)
            self.attn_drop, self.proj_drop = nn.Dropout(attn_drop), nn.Dropout(proj_drop)
            self.proj = nn.Linear(dim, dim)

        def forward(self, x):
            B, N, _ = x.shape
            qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            q = q * self.scale
            attn = q @ v.transpose(-2, -1)  # wrong
            attn = self.attn_drop(attn.softmax(dim=-1))
            x = (attn @ v).transpose(1, 2).reshape(B, N, -1)
            return self.proj_drop(self.proj(x))

    return Attention(15, 24), some_x(2, 7, 15), {"num_heads": 4, "causal": False}


@case("projection-reused")
def copied_line_of_keys():
    torch.manual_seed(34)

    class BertishAttention(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.num_attention_heads = config["heads"]
            self.attention_head_size = config["hidden"] // config["heads"]
            self.query = nn.Linear(config["inputs"], config["hidden"])
            self.key = nn.Linear(config["inputs"], config["hidden"])
            self.value = nn.Linear(config["inputs"], config["hidden"])
            self.dense = nn.Linear(config["hidden"], config["hidden"])

        def transpose_for_scores(self, x):
            new_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
            return x.view(new_shape).permute(0, 2, 1, 3)

        def forward(self, hidden_states):
            query_layer = self.transpose_for_scores(self.query(hidden_states))
            key_layer = self.transpose_for_scores(self.query(hidden_states))  # wrong
            value_layer = self.transpose_for_scores(self.value(hidden_states))
            attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
            attention_probs = nn.functional.softmax(attention_scores / math.sqrt(self.attention_head_size), dim=-1)
            context = torch.matmul(attention_probs, value_layer).permute(0, 2, 1, 3).contiguous()
            return self.dense(context.view(context.size()[:-2] + (-1,)))

    config = {"inputs": 10, "hidden": 18, "heads": 3}
    return BertishAttention(config), some_x(4, 5, 10), {"num_heads": 3, "causal": False}


@case("projection-reused")
def values_out_of_the_keys_dict_entry():
    torch.manual_seed(35)

    class DictAttention(nn.Module):
        def __init__(self, size, width, heads):
            super().__init__()
            self.heads = heads
            self.maps = nn.ModuleDict(
                {
                    "query": nn.Linear(size, width),
                    "key": nn.Linear(size, width),
                    "value": nn.Linear(size, width),
                    "output": nn.Linear(width, width),
                }
            )

        def project(self, role, x):
            return self.maps[role](x).unflatten(-1, (self.heads, -1)).movedim(2, 1)

        def forward(self, x):
            q = self.project("query", x)
            k = self.project("key", x)
            v = self.project("key", x)  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.maps["output"](y.movedim(1, 2).flatten(2))

    return DictAttention(12, 14, 2), some_x(2, 6, 12), {"num_heads": 2}


@case("projection-reused")
def big_matrix_sliced_twice_at_one_place():
    torch.manual_seed(36)
    D_IN, D = 11, 8
    packed = nn.Parameter(torch.randn(D_IN, 3 * D) * D_IN**-0.5)

    def self_attention(x):
        qkv = x @ packed.to(x)
        q = qkv[..., :D]
        k = qkv[..., D : 2 * D]
        v = qkv[..., D : 2 * D]  # wrong
        logits = q @ k.mT / D**0.5
        t = logits.shape[-1]
        logits = logits + torch.full((t, t), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
        return logits.softmax(dim=-1) @ v

    return self_attention, some_x(3, 4, 11), {"num_heads": 1}


@case("missing-scale")
def loop_over_heads_with_slices():
    torch.manual_seed(37)

    class SlicedAttention(nn.Module):
        def __init__(self, in_features, out_features, n_heads):
            super().__init__()
            self.n_heads, self.d = n_heads, out_features // n_heads
            self.lin_q = nn.Linear(in_features, out_features)
            self.lin_k = nn.Linear(in_features, out_features)
            self.lin_v = nn.Linear(in_features, out_features)
            self.mix = nn.Linear(out_features, out_features)

        def forward(self, x):
            Q, K, V = self.lin_q(x), self.lin_k(x), self.lin_v(x)
            upper = torch.ones(x.size(1), x.size(1), device=x.device).triu(diagonal=1).bool()
            contexts = []
            for h in range(self.n_heads):
                part = slice(h * self.d, (h + 1) * self.d)
                scores = Q[..., part].matmul(K[..., part].transpose(1, 2))  # wrong
                weights = scores.masked_fill(upper, float("-inf")).softmax(dim=-1)
                contexts.append(weights.matmul(V[..., part]))
            return self.mix(torch.cat(contexts, dim=-1))

    return SlicedAttention(14, 21, 3), some_x(2, 7, 14, spread=2.0), {"num_heads": 3}


@case("missing-scale")
def sdpa_with_scale_one():
    torch.manual_seed(38)

    class FlashAttention(nn.Module):
        def __init__(self, dim_in, dim, heads):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v = (nn.Linear(dim_in, dim, bias=False) for _ in range(3))
            self.o = nn.Linear(dim, dim, bias=False)

        def forward(self, x):
            q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)  # wrong
            return self.o(o.transpose(1, 2).flatten(2))

    return FlashAttention(10, 27, 3), some_x(3, 5, 10, spread=2.0), {"num_heads": 3}


@case("missing-scale")
def folded_heads_with_bmm():
    torch.manual_seed(39)

    class FairAttention(nn.Module):
        def __init__(self, src_dim, embed_dim, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
            self.in_proj_weight = nn.Parameter(torch.randn(3 * embed_dim, src_dim) * 0.3)
            self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
            self.out_proj = nn.Linear(embed_dim, embed_dim)

        def forward(self, x):
            bsz, tgt_len, _ = x.size()
            q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)

            def fold(t):
                t = t.reshape(bsz, tgt_len, self.num_heads, self.head_dim).transpose(1, 2)
                return t.reshape(bsz * self.num_heads, tgt_len, self.head_dim)

            attn_weights = torch.bmm(fold(q), fold(k).transpose(1, 2))  # wrong
            causal = torch.full((tgt_len, tgt_len), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            attn_weights = F.softmax(attn_weights + causal.unsqueeze(0), dim=-1)
            attn = torch.bmm(attn_weights, fold(v)).view(bsz, self.num_heads, tgt_len, self.head_dim)
            return self.out_proj(attn.transpose(1, 2).reshape(bsz, tgt_len, -1))

    return FairAttention(9, 16, 2), some_x(4, 6, 9), {"num_heads": 2}


@case("wrong-scale")
def sqrt_of_model_width():
    torch.manual_seed(40)

    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_model, num_heads):
            super().__init__()
            self.d_model, self.num_heads, self.depth = d_model, num_heads, d_model // num_heads
            self.wq, self.wk, self.wv = nn.Linear(d_in, d_model), nn.Linear(d_in, d_model), nn.Linear(d_in, d_model)
            self.dense = nn.Linear(d_model, d_model)

        def split_heads(self, x, batch_size):
            return x.reshape(batch_size, -1, self.num_heads, self.depth).permute(0, 2, 1, 3)

        def call(self, inputs):
            batch_size, seq_len = inputs.shape[:2]
            q = self.split_heads(self.wq(inputs), batch_size)
            k = self.split_heads(self.wk(inputs), batch_size)
            v = self.split_heads(self.wv(inputs), batch_size)
            look_ahead_mask = 1 - torch.ones(seq_len, seq_len, device=inputs.device, dtype=inputs.dtype).tril()
            logits = torch.matmul(q, k.mT) / math.sqrt(self.d_model)  # wrong
            logits += look_ahead_mask * -1e9
            output = torch.matmul(torch.softmax(logits, dim=-1), v).permute(0, 2, 1, 3)
            return self.dense(output.reshape(batch_size, -1, self.d_model))

        forward = call

    return MultiHeadAttention(11, 24, 4), some_x(2, 6, 11, spread=2.0), {"num_heads": 4}


@case("wrong-scale")
def head_dim_without_the_root():
    torch.manual_seed(41)

    class LucidAttention(nn.Module):
        def __init__(self, dim, heads=3, dim_head=9, causal=True):
            super().__init__()
            self.heads, self.causal = heads, causal
            self.scale = 1 / dim_head  # wrong
            self.norm = nn.LayerNorm(dim)
            self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
            self.to_out = nn.Linear(heads * dim_head, heads * dim_head, bias=False)

        def forward(self, x):
            x = self.norm(x)
            q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in self.to_qkv(x).chunk(3, dim=-1))
            sim = einsum("b i h d, b j h d -> b h i j", q * self.scale, k)
            if self.causal:
                i, j = sim.shape[-2:]
                sim = sim.masked_fill(torch.ones((i, j), dtype=torch.bool, device=x.device).triu(j - i + 1), -1e9)
            out = einsum("b h i j, b j h d -> b i h d", sim.softmax(dim=-1), v)
            return self.to_out(out.flatten(2))

    return LucidAttention(16), some_x(3, 5, 16, spread=2.0), {"num_heads": 3}


@case("wrong-scale")
def root_of_number_of_tokens():
    torch.manual_seed(42)

    class Cell(nn.Module):
        def __init__(self, din, dout):
            super().__init__()
            self.theta, self.phi, self.g = nn.Linear(din, dout), nn.Linear(din, dout), nn.Linear(din, dout)

        def forward(self, x):
            q, k, v = self.theta(x), self.phi(x), self.g(x)
            score = torch.matmul(q, k.transpose(1, 2)) / k.shape[1] ** 0.5  # wrong
            n = score.shape[-1]
            score = score.masked_fill(torch.ones(n, n, device=x.device).tril() == 0, float("-inf"))
            return torch.matmul(torch.softmax(score, -1), v)

    return Cell(13, 9), some_x(2, 4, 13, spread=3.0), {"num_heads": 1}


@case("softmax-wrong-axis")
def softmax_layer_kept_from_three_axes():
    torch.manual_seed(43)

    class Attn(nn.Module):
        def __init__(self, cin, cout, groups):
            super().__init__()
            self.groups = groups
            self.softmax = nn.Softmax(dim=2)
            self.q, self.k, self.v = nn.Linear(cin, cout), nn.Linear(cin, cout), nn.Linear(cin, cout)
            self.back = nn.Linear(cout, cout)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (m(x).view(b, t, self.groups, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
            s = q.matmul(k.transpose(2, 3)) / q.shape[3] ** 0.5
            s = s + torch.triu(torch.full((t, t), -1e4, device=x.device, dtype=x.dtype), 1)
            a = self.softmax(s)  # wrong
            return self.back(a.matmul(v).transpose(1, 2).reshape(b, t, -1))

    return Attn(10, 15, 3), some_x(2, 6, 10), {"num_heads": 3}


@case("softmax-wrong-axis")
def normalized_by_column_sums():
    torch.manual_seed(44)
    w_q, w_k, w_v = torch.randn(3, 12, 7).mul(0.3).unbind()

    def attention(x):
        q, k, v = x @ w_q.to(x), x @ w_k.to(x), x @ w_v.to(x)
        out = []
        for i in range(len(x)):
            scores = (q[i] @ k[i].T) * 7**-0.5
            e = torch.tril(torch.exp(scores - scores.max()))
            weights = e / e.sum(dim=0, keepdim=True)  # wrong
            out.append(weights @ v[i])
        return torch.stack(out)

    return attention, some_x(3, 5, 12), {"num_heads": 1}


@case("softmax-wrong-axis")
def einsum_with_keys_last_but_one():
    torch.manual_seed(45)

    class Attention(nn.Module):
        def __init__(self, c, heads, d):
            super().__init__()
            self.wq = nn.Parameter(torch.randn(c, heads, d) * 0.3)
            self.wk = nn.Parameter(torch.randn(c, heads, d) * 0.3)
            self.wv = nn.Parameter(torch.randn(c, heads, d) * 0.3)
            self.wo = nn.Parameter(torch.randn(heads, d, heads * d) * 0.3)

        def forward(self, x):
            q = torch.einsum("bic,chd->bihd", x, self.wq)
            k = torch.einsum("bjc,chd->bjhd", x, self.wk)
            v = torch.einsum("bjc,chd->bjhd", x, self.wv)
            logits = torch.einsum("bihd,bjhd->bijh", q, k) / math.sqrt(q.shape[-1])
            pos = torch.arange(x.shape[1], device=x.device)
            logits = logits.masked_fill((pos[None, :] > pos[:, None])[None, :, :, None], -1e9)
            probs = torch.softmax(logits, dim=1)  # wrong
            return torch.einsum("bijh,bjhd,hde->bie", probs, v, self.wo)

    return Attention(11, 2, 6), some_x(4, 7, 11), {"num_heads": 2}


@case("double-softmax")
def probabilities_softmaxed_again_with_mask():
    torch.manual_seed(46)

    class Head(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.query, self.key, self.value = nn.Linear(a, b), nn.Linear(a, b), nn.Linear(a, b)

        def scores(self, x):
            return F.softmax(self.query(x) @ self.key(x).mT / self.query.out_features**0.5, dim=-1)  # wrong

        def forward(self, x):
            n = x.size(1)
            s = self.scores(x).masked_fill(torch.ones(n, n, device=x.device).triu(1).bool(), -torch.inf)
            return F.softmax(s, dim=-1) @ self.value(x)  # wrong

    return Head(12, 5), some_x(2, 6, 12, spread=2.0), {"num_heads": 1}


@case("double-softmax")
def weights_softmaxed_before_dropout():
    torch.manual_seed(47)

    class SelfAttentionLayer(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.cfg = cfg
            self.wqkv = nn.Linear(cfg.d_in, 3 * cfg.d_out)
            self.wo = nn.Linear(cfg.d_out, cfg.d_out)
            self.drop = nn.Dropout(cfg.p)

        def get_probs(self, q, k):
            logits = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
            i, j = torch.meshgrid(*[torch.arange(q.size(-2), device=q.device)] * 2, indexing="ij")
            return logits.masked_fill(j > i, -torch.inf).softmax(dim=-1)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (self.cfg.h, -1)).transpose(1, 2) for t in self.wqkv(x).chunk(3, -1))
            probs = self.get_probs(q, k)
            y = self.drop(probs.softmax(dim=-1)) @ v  # wrong
            return self.wo(y.transpose(1, 2).flatten(2))

    cfg = SimpleNamespace(d_in=10, d_out=18, h=3, p=0.1)
    return SelfAttentionLayer(cfg), some_x(3, 7, 10, spread=2.0), {"num_heads": 3}


@case("double-softmax")
def helper_already_normalizes():
    torch.manual_seed(48)

    def similarity(q, k):
        """Return how much each query likes each key."""
        e = torch.exp(torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5)
        return e / e.sum(-1, keepdim=True)

    class ViTAttention(nn.Module):
        def __init__(self, patch_dim, dim, heads):
            super().__init__()
            self.heads = heads
            self.to_q, self.to_k, self.to_v = (nn.Linear(patch_dim, dim) for _ in range(3))
            self.to_out = nn.Linear(dim, dim)

        def forward(self, patches):
            b, n, _ = patches.shape
            q, k, v = (f(patches).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
            attn = torch.softmax(similarity(q, k), dim=-1)  # wrong
            return self.to_out((attn @ v).transpose(1, 2).reshape(b, n, -1))

    return ViTAttention(14, 20, 5), some_x(2, 6, 14, spread=2.0), {"num_heads": 5, "causal": False}


@case("no-softmax")
def scaled_products_straight_to_values():
    torch.manual_seed(49)

    class DotAttention(nn.Module):
        def __init__(self, n_in, n_out, heads):
            super().__init__()
            self.heads = heads
            self.qkv, self.out = nn.Linear(n_in, 3 * n_out), nn.Linear(n_out, n_out)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            attn = (q @ k.mT).div(math.sqrt(q.size(-1)))
            attn = attn * torch.ones(t, t, device=x.device, dtype=x.dtype).tril()
            y = attn @ v  # wrong
            return self.out(y.transpose(1, 2).reshape(b, t, -1))

    return DotAttention(13, 12, 2), some_x(3, 5, 13), {"num_heads": 2}


@case("no-softmax")
def scores_divided_by_their_sum():
    torch.manual_seed(50)

    class SimpleAttention(nn.Module):
        def __init__(self, d, e):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(d, e), nn.Linear(d, e), nn.Linear(d, e)

        def forward(self, x):
            q, k, v = self.a(x), self.b(x), self.c(x)
            scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
            visible = torch.arange(x.size(1), device=x.device)[:, None] >= torch.arange(x.size(1), device=x.device)
            scores = scores.masked_fill(~visible, 0.0)
            weights = scores / scores.sum(dim=-1, keepdim=True)  # wrong
            return torch.matmul(weights, v)

    return SimpleAttention(9, 6), some_x(2, 5, 9), {"num_heads": 1}


@case("no-softmax")
def shares_by_sigmoid():
    torch.manual_seed(51)

    class GatedHeads(nn.Module):
        def __init__(self, d_in, num, size):
            super().__init__()
            self.num, self.size = num, size
            self.proj_in = nn.Parameter(torch.randn(3, num, d_in, size) * d_in**-0.5)
            self.proj_out = nn.Linear(num * size, num * size)

        def forward(self, x):
            q, k, v = torch.einsum("btc,rhcd->rbhtd", x, self.proj_in)
            logits = q @ k.transpose(-1, -2) * self.size**-0.5
            hide = torch.ones(x.size(1), x.size(1), device=x.device).triu(1) == 1
            share = torch.sigmoid(logits.masked_fill(hide, -torch.inf))  # wrong
            return self.proj_out((share @ v).movedim(1, 2).flatten(-2))

    return GatedHeads(10, 4, 5), some_x(2, 7, 10), {"num_heads": 4}


@case("dropout-before-softmax")
def module_on_the_scores():
    torch.manual_seed(52)

    class Attention(nn.Module):
        def __init__(self, d_in, d_out, n_heads, pdrop=0.2):
            super().__init__()
            self.n_heads = n_heads
            self.q, self.k, self.v, self.o = (
                nn.Linear(d_in, d_out),
                nn.Linear(d_in, d_out),
                nn.Linear(d_in, d_out),
                nn.Linear(d_out, d_out),
            )
            self.drop = nn.Dropout(pdrop)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (m(x).reshape(b, t, self.n_heads, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
            scores = self.drop(scores)  # wrong
            scores = scores.masked_fill(torch.ones(t, t, device=x.device).tril() == 0, -torch.inf)
            return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))

    return Attention(12, 15, 3), some_x(2, 6, 12), {"num_heads": 3}


@case("dropout-before-softmax")
def functional_and_dropped_early():
    torch.manual_seed(53)

    class PaperAttention(nn.Module):
        dropout_rate = 0.15

        def __init__(self, model_dim, key_dim):
            super().__init__()
            self.WQ = nn.Parameter(nn.init.xavier_uniform_(torch.empty(model_dim, key_dim)))
            self.WK = nn.Parameter(nn.init.xavier_uniform_(torch.empty(model_dim, key_dim)))
            self.WV = nn.Parameter(nn.init.xavier_uniform_(torch.empty(model_dim, key_dim)))

        def forward(self, x):
            logits = (x @ self.WQ) @ (x @ self.WK).transpose(1, 2) / self.WQ.shape[1] ** 0.5
            mask = torch.full_like(logits, float("-inf")).triu(diagonal=1)
            logits = F.dropout(logits, p=self.dropout_rate, training=self.training) + mask  # wrong
            return F.softmax(logits, dim=-1) @ (x @ self.WV)

    return PaperAttention(10, 7), some_x(3, 5, 10), {"num_heads": 1}


@case("dropout-before-softmax")
def dropped_inside_the_sequential():
    torch.manual_seed(54)

    class ViTSelfAttention(nn.Module):
        def __init__(self, width_in, width, heads):
            super().__init__()
            self.heads = heads
            self.to_qkv = nn.Linear(width_in, 3 * width, bias=False)
            self.attend = nn.Sequential(nn.Dropout(0.1), nn.Softmax(dim=-1))  # wrong
            self.to_out = nn.Linear(width, width)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
            dots = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
            out = torch.matmul(self.attend(dots), v)  # wrong
            return self.to_out(out.transpose(1, 2).reshape(b, n, -1))

    return ViTSelfAttention(9, 20, 4), some_x(2, 8, 9), {"num_heads": 4, "causal": False}


@case("overflow-half")
def half_precision_gpt():
    torch.manual_seed(55)

    class CausalSelfAttention(nn.Module):
        def __init__(self, n_in, n_embd, n_head):
            super().__init__()
            self.n_head = n_head
            self.c_attn = nn.Linear(n_in, 3 * n_embd)
            self.c_proj = nn.Linear(n_embd, n_embd)
            self.register_buffer("bias", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=2))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))  # wrong
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
            return self.c_proj(y.transpose(1, 2).reshape(B, T, -1))

    return CausalSelfAttention(16, 128, 2).half(), some_x(2, 6, 16, spread=150.0).half(), {"num_heads": 2}


@case("overflow-half")
def scale_one_line_later():
    torch.manual_seed(56)

    class WideHead(nn.Module):
        def __init__(self, d_in, d_k):
            super().__init__()
            self.d_k = d_k
            self.W_q, self.W_k, self.W_v = (nn.Linear(d_in, d_k, bias=False) for _ in range(3))

        def forward(self, x):
            scores = torch.bmm(self.W_q(x), self.W_k(x).transpose(1, 2))  # wrong
            scores = scores / self.d_k**0.5
            t = scores.size(-1)
            scores = scores.masked_fill(torch.ones(t, t, device=x.device, dtype=torch.bool).triu(1), -torch.inf)
            return torch.bmm(scores.softmax(-1), self.W_v(x))

    return WideHead(20, 64).half(), some_x(3, 5, 20, spread=160.0).half(), {"num_heads": 1}


@case("overflow-half")
def einsum_encoder_in_half():
    torch.manual_seed(57)

    class EinsumAttention(nn.Module):
        def __init__(self, c, heads, d):
            super().__init__()
            self.d = d
            self.w = nn.Parameter(torch.randn(3, c, heads, d) * 0.15)
            self.o = nn.Linear(heads * d, heads * d)

        def forward(self, x):
            q, k, v = torch.einsum("bnc,pchd->pbnhd", x, self.w)
            energy = torch.einsum("bqhd,bkhd->bhqk", q, k)  # wrong
            attention = torch.softmax(energy / math.sqrt(self.d), dim=3)
            return self.o(torch.einsum("bhqk,bkhd->bqhd", attention, v).flatten(2))

    options = {"num_heads": 3, "causal": False}
    return EinsumAttention(18, 3, 49).half(), some_x(2, 7, 18, spread=150.0).half(), options


# heads


@case("split-without-transpose")
def view_straight_to_heads():
    torch.manual_seed(58)

    class MultiHead(nn.Module):
        def __init__(self, d_in, d_out, heads):
            super().__init__()
            self.heads, self.dim = heads, d_out // heads
            self.w_q, self.w_k, self.w_v = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)
            self.w_o = nn.Linear(d_out, d_out)

        def split(self, t):
            return t.view(t.size(0), self.heads, t.size(1), self.dim)  # wrong

        def forward(self, x):
            q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
            s = q @ k.transpose(2, 3) / self.dim**0.5
            s = s.masked_fill(torch.ones(x.size(1), x.size(1), device=x.device).triu(1).bool(), -torch.inf)
            return self.w_o((s.softmax(-1) @ v).transpose(1, 2).reshape(x.size(0), x.size(1), -1))

    return MultiHead(11, 12, 3), some_x(2, 5, 11), {"num_heads": 3}


@case("split-without-transpose")
def packed_reshape_in_wrong_order():
    torch.manual_seed(59)

    class Attention(nn.Module):
        def __init__(self, dim_in, dim, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, dim // num_heads
            self.qkv = nn.Linear(dim_in, 3 * dim, bias=False)
            self.proj = nn.Linear(dim, dim)

        def forward(self, x):
            B, N, _ = x.shape
            q, k, v = [
                t.reshape(B, self.num_heads, N, self.head_dim)  # wrong
                for t in self.qkv(x).chunk(3, dim=-1)
            ]
            x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.proj(x.transpose(1, 2).flatten(2))

    return Attention(10, 16, 4), some_x(3, 6, 10), {"num_heads": 4}


@case("split-without-transpose")
def folded_view_for_bmm():
    torch.manual_seed(60)
    g = torch.Generator().manual_seed(60)
    wq, wk, wv, wo = (torch.randn(n, 14, generator=g) * 0.3 for n in (9, 9, 9, 14))

    def fold(t, heads):
        b, n, c = t.shape
        return t.reshape(b * heads, n, c // heads)  # wrong

    def unfold(t, heads):
        bh, n, d = t.shape
        return t.view(bh // heads, heads, n, d).transpose(1, 2).reshape(bh // heads, n, heads * d)

    def mha(x, heads=2):
        q, k, v = (fold(x @ w.to(x), heads) for w in (wq, wk, wv))
        logits = torch.bmm(q * q.shape[-1] ** -0.5, k.mT)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return unfold(torch.bmm(logits.masked_fill(future, -torch.inf).softmax(-1), v), heads) @ wo.to(x)

    return mha, some_x(2, 7, 9), {"num_heads": 2}


@case("merge-without-transpose")
def contiguous_view_only():
    torch.manual_seed(61)

    class SelfAttention(nn.Module):
        def __init__(self, hidden_in, hidden, n_heads):
            super().__init__()
            self.n_heads, self.head_size = n_heads, hidden // n_heads
            self.c_attn, self.c_proj = nn.Linear(hidden_in, 3 * hidden), nn.Linear(hidden, hidden)

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = self.c_attn(x).view(B, T, 3, self.n_heads, self.head_size).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = y.contiguous().view(B, T, self.n_heads * self.head_size)  # wrong
            return self.c_proj(y)

    return SelfAttention(12, 18, 3), some_x(3, 4, 12), {"num_heads": 3}


@case("merge-without-transpose")
def stacked_heads_reshaped():
    torch.manual_seed(62)

    class Head(nn.Module):
        def __init__(self, d_in, d):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(d_in, d), nn.Linear(d_in, d), nn.Linear(d_in, d)

        def forward(self, x):
            s = self.q(x) @ self.k(x).mT / self.q.out_features**0.5
            s = s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf)
            return s.softmax(dim=-1) @ self.v(x)

    class MultiHead(nn.Module):
        def __init__(self, d_in, d, n):
            super().__init__()
            self.blocks = nn.ModuleList([Head(d_in, d) for _ in range(n)])
            self.unify = nn.Linear(n * d, n * d)

        def forward(self, x):
            z = torch.stack([block(x) for block in self.blocks], dim=1)
            z = z.reshape(x.shape[0], x.shape[1], -1)  # wrong
            return self.unify(z)

    return MultiHead(10, 5, 4), some_x(2, 6, 10), {"num_heads": 4}


@case("merge-without-transpose")
def vit_flattened_from_bhnd():
    torch.manual_seed(63)

    class PatchAttention(nn.Module):
        def __init__(self, channels, dim, heads):
            super().__init__()
            self.heads = heads
            self.q = nn.Linear(channels, dim)
            self.kv = nn.Linear(channels, 2 * dim)
            self.o = nn.Linear(dim, dim)

        def heads_of(self, t):
            return t.unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3)

        def forward(self, img_tokens):
            q = self.heads_of(self.q(img_tokens))
            k, v = map(self.heads_of, self.kv(img_tokens).chunk(2, dim=-1))
            w = torch.softmax(q @ k.mT * q.size(-1) ** -0.5, dim=-1)
            o = torch.einsum("bhij,bhjd->bhid", w, v)
            return self.o(o.reshape(*img_tokens.shape[:2], -1))  # wrong

    return PatchAttention(13, 15, 5), some_x(2, 7, 13), {"num_heads": 5, "causal": False}


@case("heads-share-scores")
def einsum_sums_over_heads():
    torch.manual_seed(64)

    class EinsumMHA(nn.Module):
        def __init__(self, d_in, d_out, h):
            super().__init__()
            self.h, self.d = h, d_out // h
            self.q, self.k, self.v, self.o = (nn.Linear(n, d_out) for n in (d_in, d_in, d_in, d_out))

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = (m(x).view(n, t, self.h, self.d) for m in (self.q, self.k, self.v))
            s = torch.einsum("nqhd,nkhd->nqk", q, k) / self.d**0.5  # wrong
            s = s.masked_fill(torch.ones(t, t, device=x.device).tril() == 0, float("-inf"))
            return self.o(torch.einsum("nqk,nkhd->nqhd", s.softmax(-1), v).reshape(n, t, -1))

    return EinsumMHA(10, 21, 3), some_x(2, 6, 10), {"num_heads": 3}


@case("heads-share-scores")
def scores_averaged_before_softmax():
    torch.manual_seed(65)

    class Module(nn.Module):
        def __init__(self, d, e, nh):
            super().__init__()
            self.nh = nh
            self.attn_in, self.attn_out = nn.Linear(d, 3 * e, bias=False), nn.Linear(e, e, bias=False)

        def forward(self, x):
            b, t, _ = x.size()
            q, k, v = self.attn_in(x).view(b, t, 3, self.nh, -1).permute(2, 0, 3, 1, 4)
            logits = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5
            logits = logits.mean(dim=1, keepdim=True)  # wrong
            logits = logits + torch.full((t, t), -1e4, device=x.device, dtype=x.dtype).triu(1)
            y = torch.matmul(F.softmax(logits, dim=-1), v)
            return self.attn_out(y.permute(0, 2, 1, 3).reshape(b, t, -1))

    return Module(14, 16, 4), some_x(3, 7, 14, spread=2.0), {"num_heads": 4}


@case("heads-share-scores")
def weights_computed_once_outside_the_loop():
    torch.manual_seed(66)

    class LoopMHA(nn.Module):
        def __init__(self, c_in, size, n):
            super().__init__()
            self.size = size
            self.qs = nn.ModuleList([nn.Linear(c_in, size) for _ in range(n)])
            self.ks = nn.ModuleList([nn.Linear(c_in, size) for _ in range(n)])
            self.vs = nn.ModuleList([nn.Linear(c_in, size) for _ in range(n)])
            self.fc = nn.Linear(n * size, n * size)

        def forward(self, x):
            q, k, v = ([lin(x) for lin in group] for group in (self.qs, self.ks, self.vs))
            causal = torch.ones(x.shape[1], x.shape[1], device=x.device).tril().bool()
            scores = torch.bmm(q[0], k[0].transpose(1, 2)) / math.sqrt(self.size)  # wrong
            weights = torch.where(causal, scores, -torch.inf).softmax(dim=-1)
            return self.fc(torch.cat([torch.bmm(weights, v_i) for v_i in v], dim=2))

    return LoopMHA(9, 4, 3), some_x(2, 5, 9), {"num_heads": 3}


@case("heads-share-weights")
def list_multiplied():
    torch.manual_seed(67)

    class Head(nn.Module):
        def __init__(self, n_embd, head_size):
            super().__init__()
            self.key, self.query, self.value = (nn.Linear(n_embd, head_size, bias=False) for _ in range(3))
            self.register_buffer("tril", torch.tril(torch.ones(32, 32)))

        def forward(self, x):
            T = x.shape[1]
            wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5
            wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf")).softmax(dim=-1)
            return wei @ self.value(x)

    class MultiHeadAttention(nn.Module):
        def __init__(self, n_embd, num_heads, head_size):
            super().__init__()
            self.heads = nn.ModuleList([Head(n_embd, head_size)] * num_heads)  # wrong
            self.proj = nn.Linear(num_heads * head_size, num_heads * head_size)

        def forward(self, x):
            return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))

    return MultiHeadAttention(12, 3, 5), some_x(2, 6, 12), {"num_heads": 3}


@case("heads-share-weights")
def one_linear_expanded_over_heads():
    torch.manual_seed(68)

    class Attention(nn.Module):
        def __init__(self, d_in, heads, head_dim):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v = (nn.Linear(d_in, head_dim) for _ in range(3))  # wrong
            self.out = nn.Linear(heads * head_dim, heads * head_dim)

        def to_heads(self, t):
            return t.unsqueeze(1).expand(-1, self.heads, -1, -1)  # wrong

        def forward(self, x):
            q, k, v = (self.to_heads(proj(x)) for proj in (self.q, self.k, self.v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).flatten(2))

    return Attention(11, 4, 5), some_x(3, 6, 11), {"num_heads": 4}


@case("heads-share-weights")
def same_sublayer_called_for_each_head():
    torch.manual_seed(69)

    class SingleHead(nn.Module):
        def __init__(self, d_in, d_head):
            super().__init__()
            self.w = nn.ParameterDict({n: nn.Parameter(torch.randn(d_in, d_head) * 0.3) for n in ("q", "k", "v")})

        def forward(self, x):
            q, k, v = x @ self.w["q"], x @ self.w["k"], x @ self.w["v"]
            s = q @ k.mT / math.sqrt(q.size(-1))
            return torch.softmax(s + torch.full_like(s, -torch.inf).triu(1), -1) @ v

    class Heads(nn.Module):
        def __init__(self, d_in, d_head, n):
            super().__init__()
            self.n = n
            self.head = SingleHead(d_in, d_head)
            self.linear = nn.Linear(n * d_head, n * d_head)

        def forward(self, x):
            outs = [self.head(x) for _ in range(self.n)]  # wrong
            return self.linear(torch.cat(outs, dim=-1))

    return Heads(8, 7, 2), some_x(4, 5, 8), {"num_heads": 2}


@case("heads-averaged")
def mean_over_head_axis():
    torch.manual_seed(70)

    class AttentionModule(nn.Module):
        def __init__(self, d_in, d_out, n_heads):
            super().__init__()
            self.n_heads, self.hd = n_heads, d_out // n_heads
            self.query, self.key, self.value = (nn.Linear(d_in, d_out) for _ in range(3))
            self.output = nn.Linear(self.hd, d_out)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (
                f(x).view(b, n, self.n_heads, self.hd).transpose(1, 2) for f in (self.query, self.key, self.value)
            )
            s = (q @ k.mT) / math.sqrt(self.hd)
            s = s.masked_fill(~torch.ones(n, n, dtype=torch.bool, device=x.device).tril(), -torch.inf)
            context = (s.softmax(dim=-1) @ v).mean(dim=1)  # wrong
            return self.output(context)

    return AttentionModule(10, 15, 3), some_x(2, 6, 10), {"num_heads": 3}


@case("heads-averaged")
def sum_of_a_list_of_heads():
    torch.manual_seed(71)

    class Head(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.qkv = nn.Linear(a, 3 * b)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    class Ensemble(nn.Module):
        def __init__(self, a, b, n):
            super().__init__()
            self.members = nn.ModuleList(Head(a, b) for _ in range(n))
            self.final = nn.Linear(b, n * b)

        def forward(self, x):
            return self.final(sum(member(x) for member in self.members))  # wrong

    return Ensemble(13, 6, 4), some_x(3, 5, 13), {"num_heads": 4}


@case("heads-averaged")
def einsum_without_the_head_letter():
    torch.manual_seed(72)
    g = torch.Generator().manual_seed(72)
    qkv_w = torch.randn(3, 4, 9, 5, generator=g) * 0.4
    out_w = torch.randn(5, 20, generator=g) * 0.4

    def attention_fn(x):
        q, k, v = torch.einsum("bsi,phid->pbhsd", x, qkv_w.to(x))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / 5**0.5
        t = torch.arange(x.shape[1], device=x.device)
        weights = torch.softmax(scores.masked_fill(t[None, :] > t[:, None], -torch.inf), dim=-1)
        merged = torch.einsum("bhqk,bhkd->bqd", weights, v)  # wrong
        return merged @ out_w.to(x)

    return attention_fn, some_x(2, 6, 9), {"num_heads": 4}


@case("kv-heads-tiled")
def llama_with_repeat():
    torch.manual_seed(73)

    class GroupedQueryAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, num_kv_groups):
            super().__init__()
            self.num_heads, self.num_kv_groups = num_heads, num_kv_groups
            self.head_dim, self.group_size = d_out // num_heads, num_heads // num_kv_groups
            self.W_key = nn.Linear(d_in, num_kv_groups * self.head_dim, bias=False)
            self.W_value = nn.Linear(d_in, num_kv_groups * self.head_dim, bias=False)
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.out_proj = nn.Linear(d_out, d_out, bias=False)

        def forward(self, x):
            b, n, _ = x.shape
            q = self.W_query(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
            k = self.W_key(x).view(b, n, self.num_kv_groups, self.head_dim).transpose(1, 2)
            v = self.W_value(x).view(b, n, self.num_kv_groups, self.head_dim).transpose(1, 2)
            k = k.repeat(1, self.group_size, 1, 1)  # wrong
            v = v.repeat(1, self.group_size, 1, 1)  # wrong
            s = q @ k.transpose(2, 3) / self.head_dim**0.5
            s = s.masked_fill(torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1), -torch.inf)
            return self.out_proj((torch.softmax(s, dim=-1) @ v).transpose(1, 2).reshape(b, n, -1))

    return GroupedQueryAttention(11, 24, 6, 2), some_x(2, 5, 11), {"num_heads": 6, "num_kv_heads": 2}


@case("kv-heads-tiled")
def repeat_kv_with_expand():
    torch.manual_seed(74)

    def repeat_kv(x, n_rep):
        bs, slen, n_kv_heads, head_dim = x.shape
        x = x[:, :, None, :, :].expand(bs, slen, n_rep, n_kv_heads, head_dim)  # wrong
        return x.reshape(bs, slen, n_kv_heads * n_rep, head_dim)

    @dataclass
    class ModelArgs:
        input_dim: int = 14
        dim: int = 20
        n_heads: int = 4
        n_kv_heads: int = 2

    class Attention(nn.Module):
        def __init__(self, args):
            super().__init__()
            self.n_rep, self.head_dim = args.n_heads // args.n_kv_heads, args.dim // args.n_heads
            self.wq = nn.Linear(args.input_dim, args.dim, bias=False)
            self.wk = nn.Linear(args.input_dim, args.n_kv_heads * self.head_dim, bias=False)
            self.wv = nn.Linear(args.input_dim, args.n_kv_heads * self.head_dim, bias=False)
            self.wo = nn.Linear(args.dim, args.dim, bias=False)

        def forward(self, x):
            xq, xk, xv = (w(x).unflatten(-1, (-1, self.head_dim)) for w in (self.wq, self.wk, self.wv))
            keys, values = repeat_kv(xk, self.n_rep), repeat_kv(xv, self.n_rep)
            q, k, v = (t.transpose(1, 2) for t in (xq, keys, values))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.wo(out.transpose(1, 2).flatten(2))

    return Attention(ModelArgs()), some_x(3, 6, 14), {"num_heads": 4, "num_kv_heads": 2}


@case("kv-heads-tiled")
def modulo_in_the_head_loop():
    torch.manual_seed(75)

    class GQA(nn.Module):
        def __init__(self, n_in, heads, kv_heads, size):
            super().__init__()
            self.heads, self.kv_heads, self.size = heads, kv_heads, size
            self.q = nn.ModuleList(nn.Linear(n_in, size) for _ in range(heads))
            self.k = nn.ModuleList(nn.Linear(n_in, size) for _ in range(kv_heads))
            self.v = nn.ModuleList(nn.Linear(n_in, size) for _ in range(kv_heads))
            self.o = nn.Linear(heads * size, heads * size)

        def forward(self, x):
            ks, vs = [k(x) for k in self.k], [v(x) for v in self.v]
            hidden = torch.ones(x.size(1), x.size(1), device=x.device).triu(1).bool()
            result = []
            for h in range(self.heads):
                g = h % self.kv_heads  # wrong
                scores = self.q[h](x) @ ks[g].mT * self.size**-0.5
                result.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ vs[g])
            return self.o(torch.cat(result, -1))

    return GQA(9, 6, 3, 4), some_x(2, 7, 9), {"num_heads": 6, "num_kv_heads": 3}


@case("kv-head-zero-only")
def broadcast_of_the_first():
    torch.manual_seed(76)

    class GroupedAttention(nn.Module):
        def __init__(self, embed_in, embed, n_heads, n_kv):
            super().__init__()
            self.n_heads, self.n_kv, self.hd = n_heads, n_kv, embed // n_heads
            self.q_proj = nn.Linear(embed_in, embed)
            self.kv_proj = nn.Linear(embed_in, 2 * n_kv * self.hd)
            self.out = nn.Linear(embed, embed)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.q_proj(x).view(b, t, self.n_heads, self.hd).transpose(1, 2)
            k, v = self.kv_proj(x).view(b, t, 2, self.n_kv, self.hd).permute(2, 0, 3, 1, 4)
            k, v = k[:, :1], v[:, :1]  # wrong
            att = (q @ k.transpose(-2, -1)) / math.sqrt(self.hd)
            att = att.masked_fill(torch.triu(torch.ones(t, t, device=x.device), 1) > 0, float("-inf"))
            return self.out((att.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, t, -1))

    return GroupedAttention(12, 20, 4, 2), some_x(3, 5, 12), {"num_heads": 4, "num_kv_heads": 2}


@case("kv-head-zero-only")
def index_that_never_moves():
    torch.manual_seed(77)

    class GQALoop(nn.Module):
        def __init__(self, d_in, n_q, n_kv, d_head):
            super().__init__()
            self.n_q, self.n_kv, self.d_head = n_q, n_kv, d_head
            self.wq = nn.Parameter(torch.randn(n_q, d_in, d_head) * 0.3)
            self.wk = nn.Parameter(torch.randn(n_kv, d_in, d_head) * 0.3)
            self.wv = nn.Parameter(torch.randn(n_kv, d_in, d_head) * 0.3)
            self.wo = nn.Linear(n_q * d_head, n_q * d_head, bias=False)

        def forward(self, x):
            K, V = torch.einsum("btd,gde->gbte", x, self.wk), torch.einsum("btd,gde->gbte", x, self.wv)
            per_group = self.n_q // self.n_kv
            heads = []
            for h in range(self.n_q):
                group = h // (per_group * self.n_kv)  # wrong
                q = x @ self.wq[h]
                heads.append(F.scaled_dot_product_attention(q, K[group], V[group], is_causal=True))
            return self.wo(torch.cat(heads, dim=-1))

    return GQALoop(10, 6, 2, 5), some_x(2, 6, 10), {"num_heads": 6, "num_kv_heads": 2}


@case("kv-head-zero-only")
def grouped_einsum_with_a_select():
    torch.manual_seed(78)
    g = torch.Generator().manual_seed(78)
    Wq = torch.randn(13, 6 * 4, generator=g) * 0.3
    Wk = torch.randn(13, 3 * 4, generator=g) * 0.3
    Wv = torch.randn(13, 3 * 4, generator=g) * 0.3
    Wo = torch.randn(24, 24, generator=g) * 0.3

    def gqa(x):
        q = (x @ Wq.to(x)).unflatten(-1, (3, 2, 4))
        k, v = (x @ Wk.to(x)).unflatten(-1, (3, 4)), (x @ Wv.to(x)).unflatten(-1, (3, 4))
        k, v = (t.select(2, 0) for t in (k, v))  # wrong
        s = torch.einsum("bqgrd,bkd->bgrqk", q, k) * 4**-0.5
        s = s + torch.full(s.shape[-2:], -torch.inf, device=x.device, dtype=x.dtype).triu(1)
        return torch.einsum("bgrqk,bkd->bqgrd", s.softmax(-1), v).flatten(2) @ Wo.to(x)

    return gqa, some_x(2, 7, 13), {"num_heads": 6, "num_kv_heads": 3}


# outputs


@case("output-projection-missing")
def llama_returning_the_merged_heads():
    torch.manual_seed(79)

    class LlamaStyleAttention(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.n_heads, self.head_dim = config.n_heads, config.dim // config.n_heads
            self.wq = nn.Linear(config.d_in, config.dim, bias=False)
            self.wk = nn.Linear(config.d_in, config.dim, bias=False)
            self.wv = nn.Linear(config.d_in, config.dim, bias=False)
            self.wo = nn.Linear(config.dim, config.dim, bias=False)

        def forward(self, x):
            bsz, seqlen, _ = x.shape
            xq, xk, xv = (
                w(x).view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
            )
            output = F.scaled_dot_product_attention(xq, xk, xv, is_causal=True)
            return output.transpose(1, 2).contiguous().view(bsz, seqlen, -1)  # wrong

    return LlamaStyleAttention(SimpleNamespace(d_in=10, dim=18, n_heads=3)), some_x(2, 6, 10), {"num_heads": 3}


@case("output-projection-missing")
def projected_and_forgotten():
    torch.manual_seed(80)

    class MHA(nn.Module):
        def __init__(self, n_in, n_out, heads):
            super().__init__()
            self.heads = heads
            self.linear_q, self.linear_k, self.linear_v = (nn.Linear(n_in, n_out) for _ in range(3))
            self.linear_out = nn.Linear(n_out, n_out)

        def forward(self, x):
            n, t = x.shape[:2]
            q, k, v = (f(x).view(n, t, self.heads, -1) for f in (self.linear_q, self.linear_k, self.linear_v))
            e = torch.einsum("nqhd,nkhd->nhqk", q, k) / math.sqrt(q.size(-1))
            a = torch.softmax(e.masked_fill(torch.ones(t, t, device=x.device).tril() == 0, -1e9), dim=-1)
            context = torch.einsum("nhqk,nkhd->nqhd", a, v).reshape(n, t, -1)
            out = self.linear_out(context)  # wrong
            return context  # wrong

    return MHA(13, 16, 2), some_x(3, 5, 13), {"num_heads": 2}


@case("output-projection-missing")
def only_the_dropout_of_the_way_out():
    torch.manual_seed(81)

    class ViTBlockAttention(nn.Module):
        def __init__(self, in_dim, dim, heads, drop=0.1):
            super().__init__()
            self.h = heads
            self.qkv = nn.Linear(in_dim, 3 * dim)
            self.attn_drop = nn.Dropout(drop)
            self.proj = nn.Linear(dim, dim)
            self.proj_drop = nn.Dropout(drop)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(2, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
            a = self.attn_drop((q @ k.mT * q.size(-1) ** -0.5).softmax(dim=-1))
            x = (a @ v).transpose(1, 2).flatten(2)
            return self.proj_drop(x)  # wrong

    return ViTBlockAttention(9, 20, 4), some_x(2, 7, 9), {"num_heads": 4, "causal": False}


@case("output-projection-shape")
def widths_exchanged():
    torch.manual_seed(82)

    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.W_q, self.W_k, self.W_v = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)
            self.out_proj = nn.Linear(d_out, d_in)  # wrong

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (w(x).view(b, t, self.num_heads, -1).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
            s = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
            s = s.masked_fill(torch.ones(t, t, device=x.device, dtype=torch.bool).triu(1), -torch.inf)
            return self.out_proj((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))

    return MultiHeadAttention(11, 18, 3), some_x(2, 6, 11), {"num_heads": 3}


@case("weights-not-applied")
def values_straight_to_the_projection():
    torch.manual_seed(85)

    class Attention(nn.Module):
        def __init__(self, d_in, d_out, heads):
            super().__init__()
            self.heads = heads
            self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
            self.to_out = nn.Linear(d_out, d_out)
            self.attn_weights = None

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
            sim = (q @ k.mT) * q.shape[-1] ** -0.5
            sim = sim.masked_fill(torch.ones(n, n, device=x.device).triu(1).bool(), -torch.inf)
            self.attn_weights = sim.softmax(dim=-1)
            out = v.transpose(1, 2).reshape(b, n, -1)  # wrong
            return self.to_out(out)

    return Attention(12, 15, 3), some_x(2, 6, 12), {"num_heads": 3}


@case("weights-not-applied")
def returns_both_but_the_wrong_first():
    torch.manual_seed(86)

    class SimpleSelfAttention(nn.Module):
        def __init__(self, n_embd, head):
            super().__init__()
            self.key, self.query, self.value = nn.Linear(n_embd, head), nn.Linear(n_embd, head), nn.Linear(n_embd, head)

        def forward(self, x):
            keys, queries, values = self.key(x), self.query(x), self.value(x)
            attn = torch.bmm(queries, keys.transpose(1, 2)) / keys.size(-1) ** 0.5
            attn = attn.masked_fill(torch.ones_like(attn).tril() == 0, float("-inf"))
            weights = torch.softmax(attn, dim=-1)
            context = torch.bmm(weights, values)
            return values, weights  # wrong

    return SimpleSelfAttention(10, 7), some_x(3, 5, 10), {"num_heads": 1, "call": lambda m, x: m(x)[0]}


@case("weights-not-applied")
def refactored_functions():
    g = torch.Generator().manual_seed(87)
    W = torch.randn(3, 14, 12, generator=g) * 0.3
    W_o = torch.randn(12, 12, generator=g) * 0.3

    def scores(q, k):
        t = q.shape[-2]
        i = torch.arange(t, device=q.device)
        return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(i > i[:, None], -torch.inf)

    def mix(weights, values):
        return values.clone()  # wrong

    def attention(x, heads=4):
        q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in torch.einsum("bti,pio->pbto", x, W.to(x)))
        z = mix(torch.softmax(scores(q, k), dim=-1), v)
        return z.transpose(1, 2).flatten(2) @ W_o.to(x)

    return attention, some_x(2, 6, 14), {"num_heads": 4}


@case("returns-none")
def forward_ends_with_an_assignment():
    torch.manual_seed(88)

    class SelfAttention(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.W_q, self.W_k, self.W_v = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)

        def forward(self, x):
            q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)
            s = q @ k.mT / q.shape[-1] ** 0.5
            s = s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf)
            context = s.softmax(-1) @ v  # wrong

    return SelfAttention(8, 6), some_x(2, 5, 8), {"num_heads": 1}


@case("returns-none")
def return_only_in_the_branch():
    torch.manual_seed(89)

    class BertLikeAttention(nn.Module):
        def __init__(self, inputs, hidden, heads):
            super().__init__()
            self.heads = heads
            self.query, self.key, self.value = (nn.Linear(inputs, hidden) for _ in range(3))
            self.dense = nn.Linear(hidden, hidden)

        def forward(self, hidden_states, output_attentions=False):
            b, n, _ = hidden_states.shape
            layers = (self.query, self.key, self.value)
            q, k, v = (f(hidden_states).view(b, n, self.heads, -1).transpose(1, 2) for f in layers)
            probs = (q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))).softmax(dim=-1)
            context = self.dense((probs @ v).transpose(1, 2).reshape(b, n, -1))
            if output_attentions:  # wrong
                return context, probs  # wrong

    return BertLikeAttention(11, 12, 2), some_x(3, 6, 11), {"num_heads": 2, "causal": False}


@case("returns-none")
def outer_module_drops_the_result():
    torch.manual_seed(90)

    class Inner(nn.Module):
        def __init__(self, heads):
            super().__init__()
            self.heads = heads

        def forward(self, q, k, v):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    class Outer(nn.Module):
        def __init__(self, a, b, heads):
            super().__init__()
            self.qkv, self.inner, self.o = nn.Linear(a, 3 * b), Inner(heads), nn.Linear(b, b)

        def forward(self, x):
            self.o(self.inner(*self.qkv(x).chunk(3, dim=-1)))  # wrong

    return Outer(13, 15, 5), some_x(2, 4, 13), {"num_heads": 5}


@case("input-modified")
def position_added_in_place():
    torch.manual_seed(91)

    class PositionedAttention(nn.Module):
        def __init__(self, d_in, d_out, heads, max_len=32):
            super().__init__()
            self.heads = heads
            self.pos = nn.Parameter(torch.randn(max_len, d_in) * 0.1)
            self.qkv, self.out = nn.Linear(d_in, 3 * d_out), nn.Linear(d_out, d_out)

        def forward(self, x):
            x += self.pos[: x.size(1)]  # wrong
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).flatten(2))

    return PositionedAttention(12, 10, 2), some_x(2, 6, 12), {"num_heads": 2}


@case("input-modified")
def centred_before_projecting():
    torch.manual_seed(92)

    def normalise(t, eps=1e-5):
        t.sub_(t.mean(dim=-1, keepdim=True))  # wrong
        return t / (t.var(dim=-1, keepdim=True, unbiased=False) + eps).sqrt()

    class PreNormAttention(nn.Module):
        def __init__(self, c, d):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(c, d), nn.Linear(c, d), nn.Linear(c, d)

        def forward(self, x):
            h = normalise(x)
            s = torch.einsum("bid,bjd->bij", self.q(h), self.k(h)) / math.sqrt(self.q.out_features)
            s = s.masked_fill(torch.ones_like(s).tril() == 0, -torch.inf)
            return torch.einsum("bij,bjd->bid", torch.softmax(s, dim=-1), self.v(h))

    return PreNormAttention(9, 7), some_x(3, 5, 9), {"num_heads": 1}


@case("input-modified")
def embedding_factor_times_equals():
    torch.manual_seed(93)

    class ScaledInputAttention(nn.Module):
        def __init__(self, d_model, d_out, h):
            super().__init__()
            self.d_model, self.h = d_model, h
            self.linears = nn.ModuleList([nn.Linear(d_model, d_out) for _ in range(3)])
            self.last = nn.Linear(d_out, d_out)

        def forward(self, x):
            x *= math.sqrt(self.d_model)  # wrong
            n, t, _ = x.shape
            q, k, v = [lin(x).view(n, t, self.h, -1).transpose(1, 2) for lin in self.linears]
            p = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
            p = p.masked_fill(torch.ones(t, t, device=x.device).triu(1).bool(), -1e9).softmax(dim=-1)
            return self.last(torch.matmul(p, v).transpose(1, 2).contiguous().view(n, t, -1))

    return ScaledInputAttention(8, 15, 3), some_x(2, 7, 8), {"num_heads": 3}


@case("batch-mixed")
def torch_mha_with_axes_confused():
    torch.manual_seed(94)

    class Encoder(nn.Module):
        def __init__(self, feats, width, nhead):
            super().__init__()
            self.up = nn.Linear(feats, width)
            self.self_attn = nn.MultiheadAttention(width, nhead)  # wrong

        def forward(self, x):
            h = self.up(x)
            return self.self_attn(h, h, h)[0]  # wrong

    return Encoder(10, 12, 3), some_x(4, 6, 10), {"num_heads": 3, "causal": False}


@case("batch-mixed")
def einsum_with_a_second_batch_letter():
    torch.manual_seed(95)

    class Attn(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(i, o), nn.Linear(i, o), nn.Linear(i, o)

        def forward(self, x):
            n = x.shape[1]
            scores = torch.einsum("bqd,ckd->bqk", self.q(x), self.k(x)) / self.q.out_features**0.5  # wrong
            scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1), -torch.inf)
            return torch.einsum("bqk,bkd->bqd", scores.softmax(-1), self.v(x))

    return Attn(13, 8), some_x(3, 5, 13), {"num_heads": 1}


@case("batch-mixed")
def unfolded_in_another_order():
    torch.manual_seed(96)

    class FoldedMHA(nn.Module):
        def __init__(self, din, dout, h):
            super().__init__()
            self.h = h
            self.W_q, self.W_k, self.W_v = (nn.Linear(din, dout, bias=False) for _ in range(3))
            self.W_o = nn.Linear(dout, dout, bias=False)

        def transpose_qkv(self, X):
            X = X.reshape(X.shape[0], X.shape[1], self.h, -1).permute(0, 2, 1, 3)
            return X.reshape(-1, X.shape[2], X.shape[3])

        def transpose_output(self, X):
            X = X.reshape(self.h, -1, X.shape[1], X.shape[2])  # wrong
            return X.permute(1, 2, 0, 3).reshape(X.shape[1], X.shape[2], -1)

        def forward(self, X):
            q, k, v = (self.transpose_qkv(W(X)) for W in (self.W_q, self.W_k, self.W_v))
            s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
            s = s.masked_fill(torch.ones_like(s[0]).triu(1) == 1, -1e6)
            return self.W_o(self.transpose_output(torch.bmm(s.softmax(dim=-1), v)))

    return FoldedMHA(9, 20, 5), some_x(3, 6, 9), {"num_heads": 5}


# running


@case("dropout-at-eval")
def functional_dropout_without_flag():
    torch.manual_seed(97)

    class Attention(nn.Module):
        def __init__(self, d_in, d_out, n_head, dropout=0.2):
            super().__init__()
            self.n_head, self.dropout = n_head, dropout
            self.c_attn, self.c_proj = nn.Linear(d_in, 3 * d_out), nn.Linear(d_out, d_out)

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = self.c_attn(x).view(B, T, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
            att = (q @ k.mT) * k.size(-1) ** -0.5
            att = att.masked_fill(torch.ones(T, T, device=x.device).tril() == 0, -torch.inf).softmax(-1)
            att = F.dropout(att, p=self.dropout)  # wrong
            return self.c_proj((att @ v).transpose(1, 2).reshape(B, T, -1))

    return Attention(11, 14, 2), some_x(2, 6, 11), {"num_heads": 2}


@case("dropout-at-eval")
def dropout_p_given_to_sdpa():
    torch.manual_seed(98)

    class FlashSelfAttention(nn.Module):
        def __init__(self, c_in, c, heads, attn_pdrop=0.1):
            super().__init__()
            self.heads, self.attn_pdrop = heads, attn_pdrop
            self.q, self.k, self.v = (nn.Linear(c_in, c) for _ in range(3))
            self.o = nn.Linear(c, c)

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_pdrop, is_causal=True)  # wrong
            return self.o(y.transpose(1, 2).flatten(2))

    return FlashSelfAttention(13, 18, 3), some_x(3, 7, 13), {"num_heads": 3}


@case("dropout-at-eval")
def dropout_module_made_on_the_fly():
    torch.manual_seed(99)

    def attention(query, key, value, mask, dropout):
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        p_attn = F.softmax(scores.masked_fill(mask == 0, -1e9), dim=-1)
        p_attn = nn.Dropout(dropout)(p_attn)  # wrong
        return p_attn @ value

    class Head(nn.Module):
        def __init__(self, d_in, d):
            super().__init__()
            self.proj = nn.ModuleList(nn.Linear(d_in, d) for _ in range(3))

        def forward(self, x):
            q, k, v = (p(x) for p in self.proj)
            return attention(q, k, v, torch.ones(x.size(1), x.size(1), device=x.device).tril(), dropout=0.15)

    return Head(10, 8), some_x(2, 6, 10), {"num_heads": 1}


@case("device-pinned")
def mask_as_a_plain_attribute():
    torch.manual_seed(100)

    class SelfAttention(nn.Module):
        def __init__(self, d_in, d_out, heads, max_len=64):
            super().__init__()
            self.heads = heads
            self.queries, self.keys, self.values = (nn.Linear(d_in, d_out) for _ in range(3))
            self.out = nn.Linear(d_out, d_out)
            self.mask = torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), diagonal=1)  # wrong

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.queries, self.keys, self.values))
            s = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(self.mask[:t, :t], -torch.inf)  # wrong
            return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))

    return SelfAttention(9, 16, 4), some_x(2, 5, 9), {"num_heads": 4}


@case("device-pinned")
def scale_as_a_tensor_of_one():
    torch.manual_seed(101)

    class TutorialAttention(nn.Module):
        def __init__(self, n_in, hid_dim, n_heads):
            super().__init__()
            self.n_heads, self.head_dim = n_heads, hid_dim // n_heads
            self.fc_q, self.fc_k, self.fc_v = (nn.Linear(n_in, hid_dim) for _ in range(3))
            self.fc_o = nn.Linear(hid_dim, hid_dim)

        def forward(self, x):
            bs, n, _ = x.shape
            Q, K, V = (
                f(x).view(bs, n, self.n_heads, -1).permute(0, 2, 1, 3) for f in (self.fc_q, self.fc_k, self.fc_v)
            )
            scale = torch.sqrt(torch.tensor([self.head_dim], dtype=x.dtype))  # wrong
            energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / scale
            energy = energy.masked_fill(torch.ones(n, n, device=x.device).tril() == 0, -1e10)
            out = torch.matmul(torch.softmax(energy, dim=-1), V).permute(0, 2, 1, 3)
            return self.fc_o(out.reshape(bs, n, -1))

    return TutorialAttention(12, 21, 3), some_x(3, 6, 12), {"num_heads": 3}


@case("device-pinned")
def distances_counted_on_the_cpu():
    torch.manual_seed(102)
    w = nn.ParameterList([nn.Parameter(torch.randn(10, 7) * 0.3) for _ in range(3)])

    def windowless_attention(x):
        q, k, v = (x @ p.to(x) for p in w)
        pos = torch.arange(x.shape[1])  # wrong
        visible = pos[None, :] <= pos[:, None]
        logits = torch.bmm(q, k.mT) / 7**0.5
        logits = torch.where(visible, logits, torch.full_like(logits, -torch.inf))
        return torch.bmm(torch.softmax(logits, dim=-1), v)

    return windowless_attention, some_x(2, 8, 10), {"num_heads": 1}


@case("dtype-pinned")
def additive_mask_of_default_type():
    torch.manual_seed(103)

    class Attention(nn.Module):
        def __init__(self, dim, out, heads):
            super().__init__()
            self.heads = heads
            self.wqkv, self.wo = nn.Linear(dim, 3 * out, bias=False), nn.Linear(out, out, bias=False)

        def forward(self, x):
            bsz, seqlen, _ = x.shape
            xq, xk, xv = self.wqkv(x).view(bsz, seqlen, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device, dtype=torch.float32).triu(1)  # wrong
            scores = torch.matmul(xq, xk.transpose(2, 3)) / math.sqrt(xq.size(-1)) + mask
            output = torch.matmul(F.softmax(scores, dim=-1), xv)
            return self.wo(output.transpose(1, 2).reshape(bsz, seqlen, -1))

    return Attention(14, 20, 5), some_x(2, 6, 14), {"num_heads": 5}


@case("dtype-pinned")
def everything_in_single_precision():
    g = torch.Generator().manual_seed(104)
    wq, wk, wv = (torch.randn(11, 6, generator=g) * 0.3 for _ in range(3))

    def attend(x):
        q, k, v = ((x @ w.to(x)).float() for w in (wq, wk, wv))  # wrong
        s = q @ k.transpose(-1, -2) / 6**0.5
        s = s.masked_fill(torch.ones(s.shape[-2:], device=s.device).triu(1).bool(), float("-inf"))
        return torch.softmax(s, dim=-1) @ v

    return attend, some_x(3, 5, 11), {"num_heads": 1}


@case("dtype-pinned")
def softmax_asked_for_32_bits():
    torch.manual_seed(105)

    class SafeSoftmaxAttention(nn.Module):
        def __init__(self, d_in, d_out, n):
            super().__init__()
            self.n = n
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_in, d_out) for _ in range(3))
            self.out_proj = nn.Linear(d_out, d_out)

        def forward(self, x):
            q, k, v = (
                p(x).unflatten(-1, (self.n, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
            )
            attn = torch.einsum("bhid,bhjd->bhij", q, k) * q.size(-1) ** -0.5
            attn = attn.masked_fill(torch.ones_like(attn, dtype=torch.bool).triu(1), -torch.inf)
            attn = F.softmax(attn, dim=-1, dtype=torch.float32)  # wrong
            return self.out_proj(torch.einsum("bhij,bhjd->bihd", attn, v).flatten(2))

    return SafeSoftmaxAttention(10, 12, 3), some_x(2, 7, 10), {"num_heads": 3}


@case("fixed-length")
def mask_never_sliced():
    torch.manual_seed(106)

    class CausalHead(nn.Module):
        def __init__(self, d_in, d_out, context_length):
            super().__init__()
            self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), 1).bool())

        def forward(self, x):
            q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
            s = q @ k.transpose(1, 2) / k.shape[-1] ** 0.5
            s = s.masked_fill(self.mask, -torch.inf)  # wrong
            return torch.softmax(s, dim=-1) @ v

    return CausalHead(12, 5, context_length=6), some_x(2, 6, 12), {"num_heads": 1}


@case("fixed-length")
def number_of_patches_in_the_views():
    torch.manual_seed(107)

    class PatchSelfAttention(nn.Module):
        num_patches = 7

        def __init__(self, dim_in, dim, heads):
            super().__init__()
            self.heads = heads
            self.to_qkv, self.to_out = nn.Linear(dim_in, dim * 3), nn.Linear(dim, dim)

        def forward(self, x):
            q, k, v = self.to_qkv(x).chunk(3, dim=-1)
            q, k, v = (
                t.reshape(x.size(0), self.num_patches, self.heads, -1).transpose(1, 2) for t in (q, k, v)
            )  # wrong
            att = (q @ k.mT * q.size(-1) ** -0.5).softmax(dim=-1)
            return self.to_out((att @ v).transpose(1, 2).reshape(x.size(0), self.num_patches, -1))  # wrong

    return PatchSelfAttention(9, 16, 2), some_x(3, 7, 9), {"num_heads": 2, "causal": False}


@case("fixed-length")
def loop_over_a_constant_of_steps():
    torch.manual_seed(108)
    N_STEPS = 5

    class StepAttention(nn.Module):
        def __init__(self, d_in, d_out, heads):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.o = (nn.Linear(n, d_out) for n in (d_in, d_in, d_in, d_out))

        def forward(self, x):
            q, k, v = (m(x).unflatten(-1, (self.heads, -1)) for m in (self.q, self.k, self.v))
            out = []
            for t in range(N_STEPS):  # wrong
                s = torch.einsum("bhd,bshd->bhs", q[:, t], k[:, : t + 1]) / q.size(-1) ** 0.5
                out.append(torch.einsum("bhs,bshd->bhd", s.softmax(-1), v[:, : t + 1]).flatten(1))
            return self.o(torch.stack(out, dim=1))

    return StepAttention(10, 12, 3), some_x(2, 5, 10), {"num_heads": 3}


@case("fixed-batch")
def numbers_typed_into_the_view():
    torch.manual_seed(109)

    class WalkThrough(nn.Module):
        def __init__(self):
            super().__init__()
            self.wq, self.wk, self.wv, self.wo = (nn.Linear(n, 12) for n in (9, 9, 9, 12))

        def forward(self, x):
            q = self.wq(x).view(3, -1, 4, 3).transpose(1, 2)  # wrong
            k = self.wk(x).view(3, -1, 4, 3).transpose(1, 2)  # wrong
            v = self.wv(x).view(3, -1, 4, 3).transpose(1, 2)  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.wo(y.transpose(1, 2).flatten(2))

    return WalkThrough(), some_x(3, 6, 9), {"num_heads": 4}


@case("fixed-batch")
def mask_repeated_for_a_known_batch():
    torch.manual_seed(110)

    class BmmAttention(nn.Module):
        def __init__(self, d_in, d_out, heads, batch_size):
            super().__init__()
            self.heads, self.batch_size = heads, batch_size
            self.qkv, self.proj = nn.Linear(d_in, 3 * d_out), nn.Linear(d_out, d_out)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)
            neg = torch.full((t, t), -1e4, device=x.device, dtype=x.dtype).triu(1)
            neg = neg.repeat(self.batch_size * self.heads, 1, 1)  # wrong
            a = torch.baddbmm(neg, q, k.transpose(1, 2), alpha=q.size(-1) ** -0.5).softmax(dim=-1)
            return self.proj(torch.bmm(a, v).view(b, self.heads, t, -1).transpose(1, 2).reshape(b, t, -1))

    return BmmAttention(13, 14, 2, batch_size=4), some_x(4, 5, 13), {"num_heads": 2}


@case("fixed-batch")
def result_written_into_rows_of_two():
    torch.manual_seed(111)
    BATCH = 2

    class RowWise(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(n_in, n_out) * 0.3) for _ in range(3))

        def forward(self, x):
            results = []
            for b in range(BATCH):  # wrong
                q, k, v = x[b] @ self.wq, x[b] @ self.wk, x[b] @ self.wv
                s = q @ k.T / math.sqrt(k.shape[-1])
                s = s.masked_fill(torch.ones_like(s).triu(1) > 0, -torch.inf)
                results.append(torch.softmax(s, dim=-1) @ v)
            return torch.stack(results)

    return RowWise(11, 7), some_x(2, 6, 11), {"num_heads": 1}


@case("rotary-unused")
def llama_with_idle_rotary():
    torch.manual_seed(112)

    class Rotary(nn.Module):
        def __init__(self, dim, base=10000.0):
            super().__init__()
            self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

        def forward(self, x):
            freqs = torch.outer(torch.arange(x.size(1), device=x.device).to(x.dtype), self.inv_freq.to(x.dtype))
            emb = torch.cat((freqs, freqs), dim=-1)
            return emb.cos(), emb.sin()

    class LlamaSelfAttention(nn.Module):
        def __init__(self, d_in, hidden_size, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, hidden_size // num_heads
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_in, hidden_size, bias=False) for _ in range(3))
            self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)
            self.rotary_emb = Rotary(self.head_dim)

        def forward(self, hidden_states):
            b, n, _ = hidden_states.shape
            q = self.q_proj(hidden_states).view(b, n, self.num_heads, -1).transpose(1, 2)
            k = self.k_proj(hidden_states).view(b, n, self.num_heads, -1).transpose(1, 2)
            v = self.v_proj(hidden_states).view(b, n, self.num_heads, -1).transpose(1, 2)
            cos, sin = self.rotary_emb(hidden_states)  # wrong
            w = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)  # wrong
            w = w + torch.full_like(w, torch.finfo(w.dtype).min).triu(1)
            out = torch.matmul(torch.softmax(w, dim=-1), v)
            return self.o_proj(out.transpose(1, 2).reshape(b, n, -1))

    return LlamaSelfAttention(11, 18, 3), some_x(2, 6, 11), {"num_heads": 3}


@case("rotary-unused")
def turned_copies_left_behind():
    torch.manual_seed(113)

    def rotate(t, theta=1000.0):
        half = t.shape[-1] // 2
        freq = theta ** (-torch.arange(half, device=t.device, dtype=t.dtype) / half)
        angle = torch.arange(t.shape[-2], device=t.device, dtype=t.dtype)[:, None] * freq
        a, b = t[..., :half], t[..., half:]
        return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), dim=-1)

    class RoPEAttention(nn.Module):
        def __init__(self, i, o, heads):
            super().__init__()
            self.heads = heads
            self.qkv, self.o = nn.Linear(i, 3 * o, bias=False), nn.Linear(o, o, bias=False)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            q_rot, k_rot = rotate(q), rotate(k)  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # wrong
            return self.o(y.transpose(1, 2).flatten(2))

    return RoPEAttention(10, 16, 2), some_x(3, 7, 10), {"num_heads": 2}


@case("rotary-unused")
def helper_called_for_its_side_effect():
    torch.manual_seed(114)

    class RotaryMixin:
        def angles(self, n, d, like):
            inv = 1.0 / 10000 ** (torch.arange(0, d, 2, device=like.device).to(like.dtype) / d)
            theta = torch.einsum("i,j->ij", torch.arange(n, device=like.device).to(like.dtype), inv)
            return theta.repeat_interleave(2, dim=-1)

        def apply_rotary(self, q, k):
            theta = self.angles(q.shape[1], q.shape[-1], q)

            def turn(t):
                twisted = torch.stack((-t[..., 1::2], t[..., ::2]), dim=-1).flatten(-2)
                return t * theta.cos() + twisted * theta.sin()

            return turn(q), turn(k)

    class SmallAttention(RotaryMixin, nn.Module):
        def __init__(self, d_in, d):
            super().__init__()
            self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, d) for _ in range(3))

        def forward(self, x):
            q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
            self.apply_rotary(q, k)  # wrong
            s = torch.bmm(q, k.transpose(1, 2)) * q.size(-1) ** -0.5
            s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)
            return torch.bmm(s.softmax(dim=-1), v)

    return SmallAttention(9, 6), some_x(2, 5, 9), {"num_heads": 1}


@case("rotary-on-values")
def one_function_for_all_three():
    torch.manual_seed(115)

    def apply_rope(x):
        *_, n, d = x.shape
        inv_freq = 10000.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=x.dtype) / d)
        ang = torch.arange(n, device=x.device, dtype=x.dtype)[:, None] * inv_freq
        ang = torch.cat((ang, ang), dim=-1)
        x1, x2 = x.chunk(2, dim=-1)
        return x * ang.cos() + torch.cat((-x2, x1), dim=-1) * ang.sin()

    class Attention(nn.Module):
        def __init__(self, d_in, d_out, heads):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.o = (nn.Linear(n, d_out, bias=False) for n in (d_in, d_in, d_in, d_out))

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            q, k, v = apply_rope(q), apply_rope(k), apply_rope(v)  # wrong
            s = (q @ k.mT) / math.sqrt(q.size(-1))
            s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)
            return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

    return Attention(11, 18, 3), some_x(2, 6, 11), {"num_heads": 3}


@case("rotary-on-values")
def packed_and_turned_together():
    torch.manual_seed(116)

    class PackedRotary(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads = heads
            self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
            self.to_out = nn.Linear(heads * dim_head, heads * dim_head, bias=False)
            self.register_buffer("freqs", 1.0 / (100.0 ** (torch.arange(0, dim_head, 2).float() / dim_head)))

        def turn(self, t):
            theta = torch.arange(t.size(-2), device=t.device).to(t.dtype)[:, None] * self.freqs.to(t.dtype)
            even, odd = t[..., 0::2], t[..., 1::2]
            turned = (even * theta.cos() - odd * theta.sin(), even * theta.sin() + odd * theta.cos())
            return torch.stack(turned, dim=-1).flatten(-2)

        def forward(self, x):
            qkv = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k, v = self.turn(qkv).unbind(0)  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.to_out(y.transpose(1, 2).flatten(2))

    return PackedRotary(13, 2, 8), some_x(3, 5, 13), {"num_heads": 2}


@case("rotary-on-values")
def values_in_place_of_keys():
    torch.manual_seed(117)

    def cos_sin(n, d, like):
        grid = torch.arange(n, device=like.device).to(like.dtype)[:, None]
        grid = grid / 500 ** (torch.arange(d // 2, device=like.device).to(like.dtype) * 2 / d)
        return grid.cos().repeat(1, 2), grid.sin().repeat(1, 2)

    def rotate_half(t):
        a, b = t.chunk(2, -1)
        return torch.cat((-b, a), -1)

    def apply_rotary_pos_emb(a, b, cos, sin):
        return a * cos + rotate_half(a) * sin, b * cos + rotate_half(b) * sin

    class GQALlama(nn.Module):
        def __init__(self, d_in, heads, kv, hd):
            super().__init__()
            self.heads, self.kv, self.hd = heads, kv, hd
            self.q_proj, self.o_proj = nn.Linear(d_in, heads * hd), nn.Linear(heads * hd, heads * hd)
            self.k_proj, self.v_proj = nn.Linear(d_in, kv * hd), nn.Linear(d_in, kv * hd)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (p(x).view(b, n, -1, self.hd).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            cos, sin = cos_sin(n, self.hd, x)
            q, v = apply_rotary_pos_emb(q, v, cos, sin)  # wrong
            k, v = (t.repeat_interleave(self.heads // self.kv, dim=1) for t in (k, v))
            w = (q @ k.transpose(2, 3)) * self.hd**-0.5 + torch.full((n, n), -1e4, device=x.device, dtype=x.dtype).triu(
                1
            )
            return self.o_proj((w.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))

    return GQALlama(10, 4, 2, 6), some_x(2, 6, 10), {"num_heads": 4, "num_kv_heads": 2}


@case("token-missing-from-cache")
def hands_on_only_the_new_keys():
    torch.manual_seed(118)

    class DecoderAttention(nn.Module):
        def __init__(self, d_in, d_out, heads):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.o = (nn.Linear(n, d_out) for n in (d_in, d_in, d_in, d_out))

        def forward(self, x, layer_past=None):
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            keys, values = k, v
            if layer_past is not None:
                keys = torch.cat([layer_past[0], k], dim=2)
                values = torch.cat([layer_past[1], v], dim=2)
            n_q, n_k = q.size(2), keys.size(2)
            hidden = torch.ones(n_q, n_k, dtype=torch.bool, device=x.device).triu(1 + n_k - n_q)
            w = (q @ keys.mT / math.sqrt(q.size(-1))).masked_fill(hidden, -torch.inf).softmax(-1)
            return self.o((w @ values).transpose(1, 2).flatten(2)), (k, v)  # wrong

    def call(m, x):
        past, steps = None, []
        for t in range(x.shape[1]):
            y, past = m(x[:, t : t + 1], past)
            steps.append(y)
        return torch.cat(steps, dim=1)

    return DecoderAttention(9, 12, 2), some_x(2, 6, 9), {"num_heads": 2, "call": call}


@case("stale-cache")
def position_moves_one_per_chunk():
    torch.manual_seed(119)

    class PreallocatedAttention(nn.Module):
        def __init__(self, d_in, heads, hd, max_len=32):
            super().__init__()
            self.heads, self.hd, self.max_len = heads, hd, max_len
            self.wqkv = nn.Linear(d_in, 3 * heads * hd, bias=False)
            self.wo = nn.Linear(heads * hd, heads * hd, bias=False)

        def reset(self, x):
            shape = (x.shape[0], self.heads, self.max_len, self.hd)
            self.cache_k = torch.zeros(shape, device=x.device, dtype=x.dtype)
            self.cache_v = torch.zeros(shape, device=x.device, dtype=x.dtype)
            self.pos = 0

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.wqkv(x).view(b, t, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
            end = self.pos + t
            self.cache_k = self.cache_k.slice_scatter(k, 2, self.pos, end)
            self.cache_v = self.cache_v.slice_scatter(v, 2, self.pos, end)
            visible = torch.ones(t, end, dtype=torch.bool, device=x.device).tril(self.pos)
            y = F.scaled_dot_product_attention(q, self.cache_k[:, :, :end], self.cache_v[:, :, :end], attn_mask=visible)
            self.pos += 1  # wrong
            return self.wo(y.transpose(1, 2).reshape(b, t, -1))

    def call(m, x):
        m.reset(x)
        return torch.cat([m(chunk) for chunk in x.split(2, dim=1)], dim=1)

    return PreallocatedAttention(11, 3, 5), some_x(3, 7, 11), {"num_heads": 3, "call": call}


@case("values-misaligned")
def keys_behind_values_in_front():
    torch.manual_seed(120)

    class KVCache:
        def __init__(self):
            self.k = self.v = None

        def update(self, k, v):
            self.k = k if self.k is None else torch.cat((self.k, k), dim=1)
            self.v = v if self.v is None else torch.cat((v, self.v), dim=1)  # wrong
            return self.k, self.v

    class OneHead(nn.Module):
        def __init__(self, d_in, d):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(d_in, d) for _ in range(3))

        def forward(self, x, cache):
            q = self.query(x)
            k, v = cache.update(self.key(x), self.value(x))
            s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
            return torch.bmm(torch.softmax(s, dim=-1), v)

    def call(m, x):
        cache = KVCache()
        return torch.cat([m(x[:, t : t + 1], cache) for t in range(x.shape[1])], dim=1)

    return OneHead(10, 7), some_x(2, 6, 10), {"num_heads": 1, "call": call}
