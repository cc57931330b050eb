"""Mistakes with the heads: how they are cut, joined, told apart and how they share keys and values."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


# --- heads-share-scores ---


@case("heads-share-scores")
def mean_over_the_heads():
    class Attn(nn.Module):
        def __init__(self, nx, n_state, n_head):
            super().__init__()
            self.n_head = n_head
            self.c_attn = nn.Linear(nx, 3 * n_state)
            self.c_proj = nn.Linear(n_state, nx)
            self.attn_dropout = nn.Dropout(0.1)
            self.register_buffer("bias", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

        def _attn(self, q, k, v):
            w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
            w = w.mean(dim=1, keepdim=True)  # wrong
            n = w.size(-1)
            w = w.masked_fill(self.bias[:, :, :n, :n] == 0, -1e4)
            return torch.matmul(self.attn_dropout(F.softmax(w, dim=-1)), v)

        def forward(self, x):
            q, k, v = (
                part.view(*part.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)
                for part in self.c_attn(x).chunk(3, dim=2)
            )
            a = self._attn(q, k, v).permute(0, 2, 1, 3)
            return self.c_proj(a.reshape(*a.shape[:2], -1))

    torch.manual_seed(23)
    return Attn(11, 30, 5), some_x(2, 7, 11, seed=23), {"num_heads": 5}


# --- heads-share-weights ---


@case("heads-share-weights")
def small_linears_on_slices():
    class SelfAttention(nn.Module):
        def __init__(self, embed_size, out_size, heads):
            super().__init__()
            self.heads, self.head_dim = heads, embed_size // heads
            self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)  # wrong
            self.keys = nn.Linear(self.head_dim, self.head_dim, bias=False)  # wrong
            self.queries = nn.Linear(self.head_dim, self.head_dim, bias=False)  # wrong
            self.fc_out = nn.Linear(heads * self.head_dim, out_size)

        def forward(self, x):
            N, length, _ = x.shape
            split = x.reshape(N, length, self.heads, self.head_dim)
            values, keys, queries = self.values(split), self.keys(split), self.queries(split)  # wrong
            energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
            allowed = torch.tril(torch.ones(length, length, device=x.device))
            energy = energy.masked_fill(allowed == 0, float("-1e20"))
            attention = torch.softmax(energy / (self.head_dim ** (1 / 2)), dim=3)
            out = torch.einsum("nhql,nlhd->nqhd", [attention, values]).reshape(N, length, -1)
            return self.fc_out(out)

    torch.manual_seed(32)
    return SelfAttention(18, 13, 3), some_x(2, 7, 18, seed=32), {"num_heads": 3}


@case("heads-share-weights")
def expanded_parameter():
    class Attention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads, self.dim_head = heads, dim_head
            self.w = nn.Parameter(torch.randn(3, 1, dim, dim_head) / dim**0.5)  # wrong
            self.to_out = nn.Linear(heads * dim_head, dim)

        def forward(self, x):
            n, dim = x.shape[1:]
            wq, wk, wv = self.w.expand(3, self.heads, dim, self.dim_head)  # wrong
            q, k, v = (torch.einsum("bnm,hmd->bhnd", x, w) for w in (wq, wk, wv))
            dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.dim_head**-0.5
            keep = torch.ones((n, n), device=x.device, dtype=torch.bool).tril()
            attn = torch.where(keep, dots, float("-inf")).softmax(dim=-1)
            out = torch.einsum("bhij,bhjd->bihd", attn, v)
            return self.to_out(out.flatten(2))

    torch.manual_seed(34)
    return Attention(12, 2, 7), some_x(4, 6, 12, seed=34), {"num_heads": 2}


@case("heads-share-weights")
def repeated_projection():
    class MultiHeadSelfAttention(nn.Module):
        def __init__(self, in_features, num_heads, head_features):
            super().__init__()
            self.num_heads = num_heads
            self.q = nn.Linear(in_features, head_features)  # wrong
            self.k = nn.Linear(in_features, head_features)  # wrong
            self.v = nn.Linear(in_features, head_features)  # wrong
            self.mix = nn.Linear(num_heads * head_features, num_heads * head_features)

        def per_head(self, t):
            return t.unsqueeze(1).repeat(1, self.num_heads, 1, 1)  # wrong

        def forward(self, x):
            q, k, v = self.per_head(self.q(x)), self.per_head(self.k(x)), self.per_head(self.v(x))
            s = q.matmul(k.transpose(2, 3)).div(q.size(-1) ** 0.5)
            s = s.masked_fill(torch.ones_like(s[0, 0]).triu(diagonal=1) > 0, torch.finfo(s.dtype).min)
            z = s.softmax(3).matmul(v)
            return self.mix(z.permute(0, 2, 1, 3).reshape(x.size(0), x.size(1), -1))

    torch.manual_seed(35)
    return MultiHeadSelfAttention(19, 6, 4), some_x(2, 5, 19, seed=35), {"num_heads": 6}


# --- kv-head-zero-only ---


@case("kv-head-zero-only")
def interleaved_too_often():
    class CausalGQA(nn.Module):
        def __init__(self, n_in, n_embd, n_head, n_kv_head):
            super().__init__()
            self.n_head, self.n_kv_head, self.hd = n_head, n_kv_head, n_embd // n_head
            self.c_q = nn.Linear(n_in, n_embd)
            self.c_kv = nn.Linear(n_in, 2 * n_kv_head * self.hd)
            self.c_proj = nn.Linear(n_embd, n_embd)

        def forward(self, x):
            B, T, _ = x.shape
            q = self.c_q(x).view(B, T, self.n_head, self.hd).transpose(1, 2)
            k, v = self.c_kv(x).view(B, T, 2 * self.n_kv_head, self.hd).transpose(1, 2).chunk(2, dim=1)
            k = k.repeat_interleave(self.n_head, dim=1)[:, : self.n_head]  # wrong
            v = v.repeat_interleave(self.n_head, dim=1)[:, : self.n_head]  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(B, T, -1))

    torch.manual_seed(63)
    return CausalGQA(10, 30, 6, 3), some_x(2, 7, 10, seed=63), {"num_heads": 6, "num_kv_heads": 3}


@case("kv-head-zero-only")
def multi_query_einsum():
    class MultiQueryAttention(nn.Module):
        def __init__(self, d, h, g, k, out):
            super().__init__()
            self.P_q = nn.Parameter(torch.randn(h, d, k) * d**-0.5)
            self.P_k = nn.Parameter(torch.randn(g, d, k) * d**-0.5)
            self.P_v = nn.Parameter(torch.randn(g, d, k) * d**-0.5)
            self.P_o = nn.Parameter(torch.randn(h, k, out) * (h * k) ** -0.5)

        def forward(self, X):
            Q = torch.einsum("bnd,hdk->bhnk", X, self.P_q)
            K = torch.einsum("bmd,gdk->bgmk", X, self.P_k)
            V = torch.einsum("bmd,gdk->bgmk", X, self.P_v)
            logits = torch.einsum("bhnk,bmk->bhnm", Q, K[:, 0]) / math.sqrt(Q.shape[-1])  # wrong
            n = X.shape[1]
            visible = torch.arange(n, device=X.device)[:, None] >= torch.arange(n, device=X.device)
            weights = torch.where(visible, logits, torch.finfo(logits.dtype).min).softmax(-1)
            Y = torch.einsum("bhnm,bmk->bhnk", weights, V[:, 0])  # wrong
            return torch.einsum("bhnk,hko->bno", Y, self.P_o)

    torch.manual_seed(64)
    return MultiQueryAttention(15, 4, 2, 8, 11), some_x(3, 5, 15, seed=64), {"num_heads": 4, "num_kv_heads": 2}


@case("kv-head-zero-only")
def index_never_filled():
    class Attention(nn.Module):
        def __init__(self, features, q_heads, kv_heads, size):
            super().__init__()
            self.size = size
            self.query = nn.Linear(features, q_heads * size)
            self.key = nn.Linear(features, kv_heads * size)
            self.value = nn.Linear(features, kv_heads * size)
            self.out = nn.Linear(q_heads * size, features)
            self.register_buffer("head_map", torch.zeros(q_heads, dtype=torch.long))  # wrong
            self.register_buffer("bias", torch.tril(torch.ones(64, 64))[None, None])

        def forward(self, x):
            b, t, _ = x.size()
            q, k, v = (f(x).view(b, t, -1, self.size).permute(0, 2, 1, 3) for f in (self.query, self.key, self.value))
            k, v = k.index_select(1, self.head_map), v.index_select(1, self.head_map)  # wrong
            w = torch.matmul(q, k.permute(0, 1, 3, 2)) * self.size**-0.5
            w = w.masked_fill(self.bias[:, :, :t, :t] == 0, -1e9)
            return self.out(torch.matmul(torch.softmax(w, -1), v).permute(0, 2, 1, 3).reshape(b, t, -1))

    torch.manual_seed(65)
    return Attention(13, 4, 2, 9), some_x(3, 8, 13, seed=65), {"num_heads": 4, "num_kv_heads": 2}


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
