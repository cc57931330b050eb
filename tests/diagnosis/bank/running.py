"""Attention that computes the right thing only here: dropout in eval, devices, dtypes, fixed sizes, rotary, caches."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


# ---------------------------------------------------------------------------------------------- dropout-at-eval


@case("dropout-at-eval")
def bernoulli_by_hand():
    class SingleHead(nn.Module):
        def __init__(self, dim, width, drop_prob=0.4):
            super().__init__()
            self.wq = nn.Parameter(torch.randn(dim, width) / dim**0.5)
            self.wk = nn.Parameter(torch.randn(dim, width) / dim**0.5)
            self.wv = nn.Parameter(torch.randn(dim, width) / dim**0.5)
            self.keep_prob = 1 - drop_prob

        def forward(self, x):
            q, k, v = x @ self.wq, x @ self.wk, x @ self.wv
            scores = torch.einsum("bqd,bkd->bqk", q, k) * q.shape[-1] ** -0.5
            i = torch.arange(x.shape[1], device=x.device)
            probs = torch.where(i <= i[:, None], scores, -torch.inf).softmax(-1)
            survivors = torch.bernoulli(torch.full_like(probs, self.keep_prob))  # wrong
            probs = probs * survivors / self.keep_prob
            return torch.einsum("bqk,bkd->bqd", probs, v)

    torch.manual_seed(4)
    return SingleHead(13, 8), some_x(2, 7, 13), {"num_heads": 1}


@case("dropout-at-eval")
def dropouts_in_a_list():
    class GroupedAttention(nn.Module):
        def __init__(self, hidden, d_out, heads, kv_heads, head_dim):
            super().__init__()
            self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
            self.q_proj = nn.Linear(hidden, heads * head_dim)
            self.k_proj = nn.Linear(hidden, kv_heads * head_dim)
            self.v_proj = nn.Linear(hidden, kv_heads * head_dim)
            self.o_proj = nn.Linear(heads * head_dim, d_out)
            self.drops = [nn.Dropout(0.1), nn.Dropout(0.2)]  # wrong

        def forward(self, hidden_states):
            b, t, _ = hidden_states.shape
            q = self.q_proj(hidden_states).view(b, t, self.heads, self.head_dim).transpose(1, 2)
            k = self.k_proj(hidden_states).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
            v = self.v_proj(hidden_states).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
            k, v = (one.repeat_interleave(self.heads // self.kv_heads, dim=1) for one in (k, v))
            scores = q @ k.mT / self.head_dim**0.5
            scores = scores + torch.full_like(scores[0, 0], float("-inf")).triu(1)
            weights = self.drops[0](scores.softmax(dim=-1))
            return self.drops[1](self.o_proj((weights @ v).transpose(1, 2).flatten(2)))

    torch.manual_seed(5)
    return GroupedAttention(15, 10, 6, 2, 4), some_x(3, 5, 15), {"num_heads": 6, "num_kv_heads": 2}


# ------------------------------------------------------------------------------------------------- dtype-pinned


@case("dtype-pinned")
def additive_mask_of_32_bits():
    class Transformer(nn.Module):
        def __init__(self, dim, d_out, inner, heads):
            super().__init__()
            self.heads = heads
            self.to_qkv = nn.Linear(dim, 3 * inner)
            self.to_out = nn.Linear(inner, d_out)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mask = torch.full((n, n), float("-inf"), device=x.device, dtype=torch.float32)  # wrong
            sim = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + torch.triu(mask, diagonal=1)
            return self.to_out((sim.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, -1))

    torch.manual_seed(24)
    return Transformer(17, 13, 24, 3), some_x(4, 6, 17), {"num_heads": 3}


@case("dtype-pinned")
def everything_as_float():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size):
            super().__init__()
            self.query = nn.Linear(n_embd, head_size)
            self.key = nn.Linear(n_embd, head_size)
            self.value = nn.Linear(n_embd, head_size)

        def forward(self, x):
            T = x.shape[1]
            q, k, v = (layer(x).float() for layer in (self.query, self.key, self.value))  # wrong
            wei = (q * q.size(-1) ** -0.5) @ k.transpose(1, 2)
            wei = wei.masked_fill(torch.tril(torch.ones(T, T, device=x.device)) == 0, float("-inf"))
            return F.softmax(wei, dim=-1) @ v

    torch.manual_seed(25)
    return Head(9, 5), some_x(3, 7, 9), {"num_heads": 1}


@case("dtype-pinned")
def input_cast_on_arrival():
    class MHA(nn.Module):
        def __init__(self, d_in, head_dim, h, d_out):
            super().__init__()
            self.h = h
            self.Wq = nn.Parameter(torch.randn(d_in, h * head_dim) * 0.25)
            self.Wk = nn.Parameter(torch.randn(d_in, h * head_dim) * 0.25)
            self.Wv = nn.Parameter(torch.randn(d_in, h * head_dim) * 0.25)
            self.Wo = nn.Parameter(torch.randn(h * head_dim, d_out) * 0.25)

        def forward(self, x):
            x = x.to(torch.float32)  # wrong
            b, t, _ = x.shape
            q, k, v = ((x @ w).reshape(b, t, self.h, -1).transpose(1, 2) for w in (self.Wq, self.Wk, self.Wv))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return y.transpose(1, 2).reshape(b, t, -1) @ self.Wo

    torch.manual_seed(26)
    return MHA(13, 3, 6, 11), some_x(2, 5, 13), {"num_heads": 6}


@case("dtype-pinned")
def heads_summed_in_32_bits():
    class PerHead(nn.Module):
        def __init__(self, width, d_out, d_head, n):
            super().__init__()
            self.d_out = d_out
            self.q = nn.ModuleList(nn.Linear(width, d_head) for _ in range(n))
            self.k = nn.ModuleList(nn.Linear(width, d_head) for _ in range(n))
            self.v = nn.ModuleList(nn.Linear(width, d_head) for _ in range(n))
            self.o = nn.ModuleList(nn.Linear(d_head, d_out, bias=False) for _ in range(n))

        def forward(self, x):
            t = x.shape[1]
            past = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            total = torch.zeros(*x.shape[:2], self.d_out, dtype=torch.float32, device=x.device)  # wrong
            for to_q, to_k, to_v, to_o in zip(self.q, self.k, self.v, self.o, strict=True):
                q, k, v = to_q(x), to_k(x), to_v(x)
                scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~past, -torch.inf)
                total += to_o(scores.softmax(-1) @ v)
            return total

    torch.manual_seed(27)
    return PerHead(14, 11, 4, 5), some_x(3, 7, 14), {"num_heads": 5}


# ------------------------------------------------------------------------------------------------- fixed-length


@case("fixed-length")
def context_of_one():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, context_length=1):  # wrong
            super().__init__()
            self.num_heads = num_heads
            self.qkv = nn.Linear(d_in, 3 * d_out, bias=False)
            self.proj = nn.Linear(d_out, d_out)
            self.register_buffer("bias", torch.tril(torch.ones(context_length, context_length)))  # wrong

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = (z.view(B, T, self.num_heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, dim=-1))
            att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
            att = att.masked_fill(self.bias[:T, :T] == 0, float("-inf"))  # wrong
            return self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1))

    torch.manual_seed(33)
    return MultiHeadAttention(13, 20, 4), some_x(2, 7, 13), {"num_heads": 4}


@case("fixed-length")
def position_bias_of_one_size():
    class BiasedAttention(nn.Module):
        def __init__(self, dim, d_out, heads, head_dim, length):
            super().__init__()
            self.heads = heads
            self.query = nn.Linear(dim, heads * head_dim)
            self.key = nn.Linear(dim, heads * head_dim)
            self.value = nn.Linear(dim, heads * head_dim)
            self.output = nn.Linear(heads * head_dim, d_out)
            self.position_bias = nn.Parameter(torch.zeros(heads, length, length))

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            scores = scores + self.position_bias  # wrong
            keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            weights = torch.where(keep, scores, -torch.inf).softmax(-1)
            return self.output((weights @ v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(35)
    return BiasedAttention(16, 11, 5, 3, 4), some_x(2, 4, 16), {"num_heads": 5}


@case("fixed-length")
def loop_to_block_size():
    class StepByStep(nn.Module):
        def __init__(self, n_embd, d_out, n_head, head_size, block_size):
            super().__init__()
            self.n_head, self.block_size = n_head, block_size
            self.c_attn = nn.Linear(n_embd, 3 * n_head * head_size)
            self.c_proj = nn.Linear(n_head * head_size, d_out)

        def forward(self, x):
            qkv = self.c_attn(x).unflatten(-1, (3, self.n_head, -1)).permute(2, 0, 3, 1, 4)
            q, k, v = qkv[0], qkv[1], qkv[2]
            rows = []
            for i in range(self.block_size):  # wrong
                score = (k[:, :, : i + 1] * q[:, :, i, None]).sum(-1) * q.shape[-1] ** -0.5
                rows.append((score.softmax(-1).unsqueeze(-1) * v[:, :, : i + 1]).sum(2))
            return self.c_proj(torch.stack(rows, dim=1).flatten(2))

    torch.manual_seed(36)
    return StepByStep(9, 16, 4, 5, 7), some_x(3, 7, 9), {"num_heads": 4}


@case("fixed-length")
def function_with_closed_over_mask():
    torch.manual_seed(37)
    wq, wk, wv, wo = (torch.randn(shape) * 0.3 for shape in ((12, 18), (12, 18), (12, 18), (18, 5)))
    hidden = torch.triu(torch.ones(7, 7, dtype=torch.bool), diagonal=1)

    def attention(x):
        q, k, v = ((x @ w.to(x)).unflatten(-1, (6, 3)).transpose(1, 2) for w in (wq, wk, wv))
        scores = q @ k.transpose(-1, -2) / 3**0.5
        scores = scores.masked_fill(hidden.to(x.device), float("-inf"))  # wrong
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ wo.to(x)

    return attention, some_x(2, 7, 12), {"num_heads": 6}


# -------------------------------------------------------------------------------------------------- fixed-batch
@case("fixed-batch")
def samples_in_the_view():
    class WalkThrough(nn.Module):
        def __init__(self, d_model, d_out, d_attn):
            super().__init__()
            self.W_q = nn.Linear(d_model, d_attn, bias=False)
            self.W_k = nn.Linear(d_model, d_attn, bias=False)
            self.W_v = nn.Linear(d_model, d_attn, bias=False)
            self.W_o = nn.Linear(d_attn, d_out, bias=False)

        def forward(self, x):
            n = x.shape[1]
            q, k, v = (w(x).view(2, n, 3, -1).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))  # wrong
            att = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            att = att.masked_fill(torch.triu(torch.ones(n, n, device=x.device), 1) == 1, float("-inf"))
            return self.W_o((F.softmax(att, dim=-1) @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(41)
    return WalkThrough(10, 7, 12), some_x(2, 5, 10), {"num_heads": 3}


@case("fixed-batch")
def mask_with_samples():
    class Attention(nn.Module):
        def __init__(self, d_in, d_out, batch, max_len=32):
            super().__init__()
            self.query = nn.Linear(d_in, d_out)
            self.key = nn.Linear(d_in, d_out)
            self.value = nn.Linear(d_in, d_out)
            self.register_buffer("future", torch.ones(batch, max_len, max_len).triu(1).bool(), persistent=False)

        def forward(self, x):
            n = x.shape[1]
            q, k, v = self.query(x), self.key(x), self.value(x)
            scores = torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5
            scores = scores.masked_fill(self.future[:, :n, :n], float("-inf"))  # wrong
            return torch.bmm(F.softmax(scores, dim=-1), v)

    torch.manual_seed(43)
    return Attention(9, 8, 4), some_x(4, 6, 9), {"num_heads": 1}


@case("fixed-batch")
def loop_over_known_samples():
    class PerSample(nn.Module):
        def __init__(self, d_in, heads, d_head, d_out):
            super().__init__()
            self.wq = nn.Parameter(torch.randn(heads, d_in, d_head) * 0.3)
            self.wk = nn.Parameter(torch.randn(heads, d_in, d_head) * 0.3)
            self.wv = nn.Parameter(torch.randn(heads, d_in, d_head) * 0.3)
            self.wo = nn.Parameter(torch.randn(heads * d_head, d_out) * 0.3)

        def forward(self, x):
            t = x.shape[1]
            allowed = torch.ones(t, t, device=x.device).tril()
            outputs = []
            for sample in range(2):  # wrong
                q, k, v = x[sample] @ self.wq, x[sample] @ self.wk, x[sample] @ self.wv
                scores = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(allowed == 0, -torch.inf)
                outputs.append((scores.softmax(-1) @ v).transpose(0, 1).reshape(t, -1) @ self.wo)
            return torch.stack(outputs)

    torch.manual_seed(45)
    return PerSample(9, 5, 4, 13), some_x(2, 8, 9), {"num_heads": 5}


@case("fixed-batch")
def samples_folded_into_tokens():
    torch.manual_seed(46)
    shapes = ((11, 18), (11, 6), (11, 6), (18, 14))
    w_q, w_k, w_v, w_o = (torch.randn(shape) / shape[0] ** 0.5 for shape in shapes)

    def heads_of(z):
        return z.reshape(4, -1, z.shape[-1] // 3, 3).transpose(1, 2)  # wrong

    def grouped_attention(x):
        b, t, _ = x.shape
        q, k, v = heads_of(x @ w_q.to(x)), heads_of(x @ w_k.to(x)), heads_of(x @ w_v.to(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return y.transpose(1, 2).reshape(b, t, -1) @ w_o.to(x)

    return grouped_attention, some_x(4, 5, 11), {"num_heads": 6, "num_kv_heads": 2}


# ------------------------------------------------------------------------------------------------ rotary-unused


@case("rotary-unused")
def buffers_left_alone():
    class SingleHead(nn.Module):
        def __init__(self, d_in, d_out, max_len=64):
            super().__init__()
            self.query = nn.Linear(d_in, d_out)
            self.key = nn.Linear(d_in, d_out)
            self.value = nn.Linear(d_in, d_out)
            freqs = 1.0 / 10000.0 ** (torch.arange(0, d_out, 2).float() / d_out)
            angles = torch.outer(torch.arange(max_len).float(), freqs)
            self.register_buffer("cos", angles.cos(), persistent=False)  # wrong
            self.register_buffer("sin", angles.sin(), persistent=False)  # wrong
            self.register_buffer("causal", torch.ones(max_len, max_len).tril(), persistent=False)

        def forward(self, x):
            t = x.size(1)
            q, k = self.query(x), self.key(x)  # wrong
            scores = torch.bmm(q, k.permute(0, 2, 1)) / math.sqrt(q.size(2))  # wrong
            scores = scores.masked_fill(self.causal[:t, :t] == 0, float("-inf"))
            return torch.bmm(F.softmax(scores, dim=2), self.value(x))

    torch.manual_seed(55)
    return SingleHead(13, 8), some_x(3, 4, 13), {"num_heads": 1}


@case("rotary-unused")
def optional_and_never_given():
    def turn(z, angles):
        a, b = z.chunk(2, dim=-1)
        return z * angles.cos() + torch.cat([-b, a], dim=-1) * angles.sin()

    class Attention(nn.Module):
        def __init__(self, dim, d_out, heads, dim_head, max_len=32):
            super().__init__()
            self.heads = heads
            self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
            self.to_kv = nn.Linear(dim, 2 * heads * dim_head, bias=False)
            self.to_out = nn.Linear(heads * dim_head, d_out)
            angles = torch.arange(max_len)[:, None] * 10000.0 ** -(torch.arange(0, dim_head, 2) / dim_head)
            self.register_buffer("freqs", torch.cat([angles, angles], dim=-1))  # wrong

        def forward(self, x, freqs=None):  # wrong
            q, k, v = (
                z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (self.to_q(x), *self.to_kv(x).chunk(2, -1))
            )
            if freqs is not None:  # wrong
                q, k = turn(q, freqs[: x.shape[1]]), turn(k, freqs[: x.shape[1]])
            keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
            return self.to_out(out.transpose(1, 2).flatten(2))

    torch.manual_seed(56)
    return Attention(10, 13, 6, 4), some_x(2, 8, 10), {"num_heads": 6}


# --------------------------------------------------------------------------------------------- rotary-on-values


@case("rotary-on-values")
def values_instead_of_keys():
    def rotary(z, theta):
        pos = torch.arange(z.shape[2], device=z.device)
        cos, sin = torch.cos(pos[:, None] * theta), torch.sin(pos[:, None] * theta)
        even, odd = z[..., 0::2], z[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.out_proj = nn.Linear(d_out, d_out)
            self.register_buffer("theta", 10000.0 ** -(torch.arange(0, self.head_dim, 2) / self.head_dim))

        def forward(self, x):
            b, t, _ = x.shape
            queries = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            keys = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            values = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            queries = rotary(queries, self.theta)
            values = rotary(values, self.theta)  # wrong
            scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
            future = torch.ones(t, t, device=x.device).triu(1).bool()
            context = scores.masked_fill(future, -torch.inf).softmax(dim=-1) @ values
            return self.out_proj(context.transpose(1, 2).flatten(2))

    torch.manual_seed(62)
    return MultiHeadAttention(10, 24, 4), some_x(3, 5, 10), {"num_heads": 4}


# -------------------------------------------------------------------------------------------------- stale-cache


@case("stale-cache")
def prompts_kept_on_self():
    class Attention(nn.Module):
        def __init__(self, n_embd, d_out, n_head, head_dim):
            super().__init__()
            self.n_head = n_head
            self.c_attn = nn.Linear(n_embd, 3 * n_head * head_dim)
            self.c_proj = nn.Linear(n_head * head_dim, d_out)
            self.register_buffer("k_cache", None, persistent=False)
            self.register_buffer("v_cache", None, persistent=False)

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = (z.view(B, T, self.n_head, -1).transpose(1, 2) for z in self.c_attn(x).chunk(3, dim=-1))
            if self.k_cache is not None and self.k_cache.shape[0] == B:  # wrong
                k = torch.cat([self.k_cache, k], dim=2)  # wrong
                v = torch.cat([self.v_cache, v], dim=2)  # wrong
            self.k_cache, self.v_cache = k.detach(), v.detach()  # wrong
            past = k.shape[2] - T
            keep = torch.ones(T, past + T, dtype=torch.bool, device=x.device).tril(past)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
            return self.c_proj(y.transpose(1, 2).reshape(B, T, -1))

    torch.manual_seed(76)
    return Attention(16, 7, 5, 3), some_x(2, 4, 16), {"num_heads": 5}
