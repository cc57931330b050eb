"""Attention whose scores or weights are wrong: what is compared, how it is scaled and what softmax does with it."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


# projection-reused


# missing-scale


# wrong-scale


# softmax-wrong-axis


@case("softmax-wrong-axis")
def over_the_batch():
    class SelfAttention(nn.Module):
        def __init__(self, d_in, h, d_head):
            super().__init__()
            self.h, self.d_head = h, d_head
            self.to_q = nn.Linear(d_in, h * d_head, bias=False)
            self.to_kv = nn.Linear(d_in, 2 * h * d_head, bias=False)
            self.to_out = nn.Linear(h * d_head, d_in)

        def forward(self, x):
            q = self.to_q(x)
            k, v = self.to_kv(x).chunk(2, dim=-1)
            q, k, v = (t.unflatten(2, (self.h, self.d_head)).transpose(1, 2) for t in (q, k, v))
            scores = q @ k.mT / math.sqrt(self.d_head)
            probs = F.softmax(scores, dim=0)  # wrong
            return self.to_out((probs @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(45)
    return SelfAttention(9, 2, 8), some_x(3, 5, 9), {"num_heads": 2, "causal": False}


# no-softmax


@case("no-softmax")
def shares_by_a_plain_sum():
    class SelfAttention(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.wq, self.wk, self.wv = (nn.Parameter(torch.rand(d_in, d_out)) for _ in range(3))

        def forward(self, x):
            q, k, v = x @ self.wq, x @ self.wk, x @ self.wv
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
            scores = scores * torch.ones_like(scores).tril()
            weights = scores / scores.sum(dim=-1, keepdim=True)  # wrong
            return torch.bmm(weights, v)

    torch.manual_seed(64)
    return SelfAttention(8, 5), some_x(2, 6, 8, seed=3), {"num_heads": 1}


# dropout-before-softmax


@case("dropout-before-softmax")
def functional_dropout():
    class CausalSelfAttention(nn.Module):
        def __init__(self, n_in, n_embd, n_head, p=0.1):
            super().__init__()
            self.n_head, self.p = n_head, p
            self.c_attn, self.c_proj = nn.Linear(n_in, 3 * n_embd), nn.Linear(n_embd, n_embd)

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=-1))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = F.dropout(att, p=self.p, training=self.training)  # wrong
            causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            att = F.softmax(att.masked_fill(~causal, float("-inf")), dim=-1)
            return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, -1))

    torch.manual_seed(72)
    return CausalSelfAttention(14, 20, 5), some_x(3, 6, 14), {"num_heads": 5}


@case("dropout-before-softmax")
def single_head_with_bmm():
    class CausalAttention(nn.Module):
        def __init__(self, d_in, d_out, dropout):
            super().__init__()
            self.wq = nn.Parameter(torch.randn(d_in, d_out) / d_in**0.5)
            self.wk = nn.Parameter(torch.randn(d_in, d_out) / d_in**0.5)
            self.wv = nn.Parameter(torch.randn(d_in, d_out) / d_in**0.5)
            self.drop = nn.Dropout(dropout)

        def scores(self, x):
            q, k = x @ self.wq, x @ self.wk
            return self.drop(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1]))  # wrong

        def forward(self, x):
            t = x.shape[1]
            bias = torch.full((t, t), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            return torch.bmm((self.scores(x) + bias).softmax(dim=-1), x @ self.wv)

    torch.manual_seed(76)
    return CausalAttention(10, 8, 0.2), some_x(4, 5, 10), {"num_heads": 1}


@case("dropout-before-softmax")
def loop_with_dropped_scores():
    class LoopedHeads(nn.Module):
        def __init__(self, d_model, n_heads, d_head, p_drop=0.1):
            super().__init__()
            self.n_heads = n_heads
            self.qkv = nn.ModuleList(nn.Linear(d_model, n_heads * d_head) for _ in range(3))
            self.out, self.drop = nn.Linear(n_heads * d_head, d_model), nn.Dropout(p_drop)

        def forward(self, x):
            q, k, v = (layer(x).chunk(self.n_heads, dim=-1) for layer in self.qkv)
            later = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
            contexts = []
            for h in range(self.n_heads):
                scores = torch.where(later, float("-inf"), q[h] @ k[h].mT * q[h].shape[-1] ** -0.5)
                weights = torch.softmax(self.drop(scores), dim=-1)  # wrong
                contexts.append(weights @ v[h])
            return self.out(torch.cat(contexts, dim=-1))

    torch.manual_seed(77)
    return LoopedHeads(16, 6, 3), some_x(2, 5, 16), {"num_heads": 6}


# overflow-half


@case("overflow-half")
def half_gpt_block():
    class CausalSelfAttention(nn.Module):
        def __init__(self, n_in, n_embd, n_head):
            super().__init__()
            self.n_head = n_head
            self.c_attn, self.c_proj = nn.Linear(n_in, 3 * n_embd), nn.Linear(n_embd, n_embd)
            self.register_buffer("bias", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=2))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))  # wrong
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, -1))

    torch.manual_seed(81)
    module, x = CausalSelfAttention(12, 27, 3), some_x(2, 6, 12, spread=180.0)
    return module.half(), x.half(), {"num_heads": 3}


@case("overflow-half")
def half_only_for_the_product():
    class MixedPrecisionAttention(nn.Module):
        def __init__(self, dim, heads, size):
            super().__init__()
            self.heads, self.size = heads, size
            self.q_proj, self.k_proj = nn.Linear(dim, heads * size), nn.Linear(dim, heads * size)
            self.v_proj, self.o_proj = nn.Linear(dim, heads * size), nn.Linear(heads * size, dim)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.q_proj(x).view(b, t, self.heads, self.size).transpose(1, 2)
            k = self.k_proj(x).view(b, t, self.heads, self.size).transpose(1, 2)
            v = self.v_proj(x).view(b, t, self.heads, self.size).transpose(1, 2)
            scores = torch.matmul(q.half(), k.half().transpose(2, 3))  # wrong
            scores = scores.to(x.dtype) / math.sqrt(self.size)
            future = torch.ones(t, t, device=x.device, dtype=torch.bool).triu(1)
            probs = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
            return self.o_proj(torch.matmul(probs, v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(82)
    x = some_x(3, 5, 17, spread=180.0)
    return MixedPrecisionAttention(17, 4, 8), x, {"num_heads": 4}


@case("overflow-half")
def autocast_region():
    class Attention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads, self.scale = heads, dim_head**-0.5
            self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
            self.to_out = nn.Linear(heads * dim_head, dim)

        def attend(self, q, k, v):
            sim = torch.matmul(q, k.transpose(-1, -2))  # wrong
            sim = sim * self.scale  # wrong
            i = torch.arange(q.shape[-2], device=q.device)
            return sim.masked_fill(i[:, None] < i, -torch.inf).softmax(dim=-1) @ v

        def forward(self, x):
            with torch.autocast(x.device.type, dtype=torch.float16):
                q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
                out = self.attend(q, k, v).transpose(1, 2).flatten(2)
            return self.to_out(out.to(x.dtype))

    torch.manual_seed(83)
    return Attention(14, 5, 9), some_x(2, 7, 14, spread=170.0), {"num_heads": 5}


@case("overflow-half")
def half_single_head():
    class SelfAttention(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)

        def forward(self, x):
            queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
            attn_scores = torch.einsum("bqd,bkd->bqk", queries, keys)  # wrong
            mask = torch.triu(torch.ones_like(attn_scores), diagonal=1).bool()
            attn_scores = attn_scores.masked_fill(mask, -torch.inf)
            attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)  # wrong
            return attn_weights @ values

    torch.manual_seed(85)
    module, x = SelfAttention(20, 8), some_x(2, 7, 20, spread=230.0)
    return module.half(), x.half(), {"num_heads": 1}


# scales after norms of queries and keys


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
