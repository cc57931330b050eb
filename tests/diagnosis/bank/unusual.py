"""Right attention code that looks unusual: whoever judges by habit calls it wrong."""

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    padding_keep,
)

from .case import collector, some_x

CASES, case = collector()


# Positions


@case(None)
def t5_decoder_buckets():
    class T5Attention(nn.Module):
        def __init__(self, d_model, num_heads, d_kv, buckets=8, max_distance=20):
            super().__init__()
            self.n_heads, self.d_kv, self.buckets, self.max_distance = num_heads, d_kv, buckets, max_distance
            inner = num_heads * d_kv
            self.q = nn.Linear(d_model, inner, bias=False)
            self.k = nn.Linear(d_model, inner, bias=False)
            self.v = nn.Linear(d_model, inner, bias=False)
            self.o = nn.Linear(inner, d_model + 2, bias=False)
            self.relative_attention_bias = nn.Embedding(buckets, num_heads)
            nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)  # holds the 1 / sqrt(d_kv)
            nn.init.normal_(self.k.weight, std=d_model**-0.5)
            nn.init.normal_(self.v.weight, std=d_model**-0.5)

        def bucket(self, back):
            exact = self.buckets // 2
            far = torch.log(back.clamp(min=1) / exact) / math.log(self.max_distance / exact) * (self.buckets - exact)
            far = (exact + far.long()).clamp(max=self.buckets - 1)
            return torch.where(back < exact, back, far)

        def forward(self, hidden_states):
            batch, length = hidden_states.shape[:2]
            q, k, v = (
                f(hidden_states).view(batch, length, self.n_heads, self.d_kv).transpose(1, 2)
                for f in (self.q, self.k, self.v)
            )
            places = torch.arange(length, device=hidden_states.device)
            back = places[:, None] - places[None, :]
            bias = self.relative_attention_bias(self.bucket(back.clamp(min=0))).permute(2, 0, 1)
            bias = bias.masked_fill(back < 0, torch.finfo(bias.dtype).min)
            scores = torch.matmul(q, k.transpose(3, 2)) + bias
            context = torch.matmul(F.softmax(scores, dim=-1), v)
            return self.o(context.transpose(1, 2).contiguous().view(batch, length, -1))

    torch.manual_seed(7)
    return T5Attention(12, 4, 5), some_x(3, 8, 12), {"num_heads": 4}


# Queries and keys brought to a norm


@case(None)
def cosines_with_a_learned_temperature():
    class CosineAttention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads = heads
            self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
            self.logit_scale = nn.Parameter(torch.linspace(1.5, 2.5, heads).view(heads, 1, 1))
            self.to_out = nn.Linear(heads * dim_head, dim + 4)

        def forward(self, x):
            q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.to_qkv(x).chunk(3, dim=-1))
            cosines = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
            logits = cosines * self.logit_scale.clamp(max=math.log(100)).exp()
            causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            attn = logits.masked_fill(~causal, -torch.finfo(logits.dtype).max).softmax(dim=-1)
            return self.to_out((attn @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(13)
    return CosineAttention(11, 4, 6), some_x(3, 5, 11), {"num_heads": 4}


# Other masks


@case(None)
def sliding_window():
    class LocalAttention(nn.Module):
        def __init__(self, d_model, n_heads, d_head, window):
            super().__init__()
            self.n_heads, self.window = n_heads, window
            self.in_proj = nn.Linear(d_model, 3 * n_heads * d_head)
            self.out_proj = nn.Linear(n_heads * d_head, n_heads * d_head)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.in_proj(x).view(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4).unbind()
            ones = torch.ones(t, t, dtype=torch.bool, device=x.device)
            band = ones.tril() & ones.triu(1 - self.window)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=band)
            return self.out_proj(y.transpose(1, 2).flatten(2))

    torch.manual_seed(15)
    keep = torch.ones(8, 8, dtype=torch.bool).triu(-2)
    return LocalAttention(14, 4, 5, window=3), some_x(2, 8, 14), {"num_heads": 4, "keep": keep}


@case(None)
def left_padding_with_empty_rows():
    class PaddedAttention(nn.Module):
        def __init__(self, d_in, n_heads, d_head):
            super().__init__()
            self.n_heads = n_heads
            self.wq, self.wk, self.wv = (nn.Linear(d_in, n_heads * d_head, bias=False) for _ in range(3))
            self.wo = nn.Linear(n_heads * d_head, n_heads * d_head, bias=False)

        def forward(self, x, attention_mask):
            b, t, _ = x.shape
            q, k, v = (f(x).view(b, t, self.n_heads, -1).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
            visible = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            visible = visible & attention_mask[:, None, None, :].bool()
            scores = (q * q.size(-1) ** -0.5) @ k.transpose(2, 3)
            weights = scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(-1)
            weights = weights * visible.any(-1, keepdim=True)  # rows that see nothing
            return self.wo((weights @ v).transpose(1, 2).reshape(b, t, -1))

    def real(x):
        first = min(2, x.shape[1] - 1)
        return (torch.arange(x.shape[1], device=x.device) >= first).long().expand(len(x), -1)

    torch.manual_seed(17)
    x = some_x(3, 6, 13)
    options = {"num_heads": 4, "keep": real(x).bool()[:, None, None], "call": lambda m, x: m(x, real(x))}
    return PaddedAttention(13, 4, 5), x, options


@case(None)
def left_padding_a_sample_with_nan_to_num():
    class BatchedDecoder(nn.Module):
        def __init__(self, width, heads, size):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(width, 3 * heads * size)
            self.out = nn.Linear(heads * size, width + 5, bias=False)

        def forward(self, x, starts):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)  # b h t d each
            n = torch.arange(x.shape[1], device=x.device)
            hidden = (n > n[:, None]) | (n < starts[:, None, None])  # b q k
            scores = torch.matmul(q / math.sqrt(q.shape[-1]), k.mT).masked_fill(hidden[:, None], -torch.inf)
            weights = torch.nan_to_num(scores.softmax(dim=-1), nan=0.0)
            return self.out(torch.matmul(weights, v).transpose(1, 2).flatten(2))

    def starts(x):
        return (torch.arange(len(x), device=x.device) % 3).clamp(max=x.shape[1] - 1)

    torch.manual_seed(18)
    x = some_x(4, 5, 16)
    keep = torch.arange(5) >= starts(x)[:, None, None, None]
    return BatchedDecoder(16, 3, 7), x, {"num_heads": 3, "keep": keep, "call": lambda m, x: m(x, starts(x))}


@case(None)
def documents_packed_in_one_row():
    class PackedDocuments(nn.Module):
        def __init__(self, d_in, h, d):
            super().__init__()
            self.h = h
            self.q, self.k, self.v = (nn.Linear(d_in, h * d, bias=False) for _ in range(3))
            self.o = nn.Linear(h * d, h * d)

        def forward(self, x, document):
            q, k, v = (f(x).unflatten(-1, (self.h, -1)).movedim(2, 1) for f in (self.q, self.k, self.v))
            same = document[:, None] == document[None, :]
            mask = torch.where(same.tril(), 0.0, -torch.inf).to(x.dtype)
            att = F.softmax((q * q.shape[-1] ** -0.5) @ k.mT + mask, dim=-1)
            return self.o((att @ v).movedim(1, 2).flatten(2))

    def document(x):
        return torch.arange(x.shape[1], device=x.device) // 3

    torch.manual_seed(20)
    x = some_x(3, 8, 15)
    keep = document(x)[:, None] == document(x)
    return PackedDocuments(15, 2, 9), x, {"num_heads": 2, "keep": keep, "call": lambda m, x: m(x, document(x))}


@case(None)
def encoder_with_key_padding():
    class BertSelfAttention(nn.Module):
        def __init__(self, hidden_size, num_attention_heads, head_size, p=0.1):
            super().__init__()
            self.num_attention_heads = num_attention_heads
            all_head_size = num_attention_heads * head_size
            self.query, self.key, self.value = (nn.Linear(hidden_size, all_head_size) for _ in range(3))
            self.dense = nn.Linear(all_head_size, all_head_size)
            self.dropout = nn.Dropout(p)

        def transpose_for_scores(self, x):
            return x.view(*x.size()[:-1], self.num_attention_heads, -1).permute(0, 2, 1, 3)

        def forward(self, hidden_states, attention_mask):
            q, k, v = (self.transpose_for_scores(f(hidden_states)) for f in (self.query, self.key, self.value))
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
            extended = (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * torch.finfo(scores.dtype).min
            probs = self.dropout(nn.functional.softmax(scores + extended, dim=-1))
            context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
            return self.dense(context.view(*context.size()[:-2], -1))

    def real(x):
        ends = x.shape[1] - torch.arange(len(x), device=x.device) % 3
        return torch.arange(x.shape[1], device=x.device) < ends.clamp(min=1)[:, None]

    torch.manual_seed(21)
    x = some_x(3, 6, 14)
    keep = real(x)[:, None, None, :]
    options = {"causal": False, "num_heads": 5, "keep": keep, "call": lambda m, x: m(x, real(x).long())}
    return BertSelfAttention(14, 5, 4), x, options


# Shared keys and values


@case(None)
def grouped_by_expand():
    class LlamaLike(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads, head_dim):
            super().__init__()
            self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
            self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
            self.wk = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wv = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wo = nn.Linear(n_heads * head_dim, dim + 2, bias=False)

        def repeat_kv(self, u):
            b, t, g, d = u.shape
            n = self.n_heads // g
            return u[:, :, :, None, :].expand(b, t, g, n, d).reshape(b, t, g * n, d)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.wq(x).view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
            k = self.repeat_kv(self.wk(x).view(b, t, self.n_kv_heads, self.head_dim)).transpose(1, 2)
            v = self.repeat_kv(self.wv(x).view(b, t, self.n_kv_heads, self.head_dim)).transpose(1, 2)
            scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)
            mask = torch.triu(torch.full((t, t), float("-inf"), device=x.device, dtype=x.dtype), diagonal=1)
            return self.wo(torch.matmul(F.softmax(scores + mask, dim=-1), v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(24)
    return LlamaLike(13, 6, 2, 5), some_x(4, 7, 13), {"num_heads": 6, "num_kv_heads": 2}


@case(None)
def grouped_by_repeat_interleave():
    class GroupedAttention(nn.Module):
        def __init__(self, d_in, d_out, query_heads, kv_heads):
            super().__init__()
            self.size, self.share = d_out // query_heads, query_heads // kv_heads
            self.W_query = nn.Linear(d_in, d_out)
            self.W_key = nn.Linear(d_in, kv_heads * self.size)
            self.W_value = nn.Linear(d_in, kv_heads * self.size)
            self.out_proj = nn.Linear(d_out, d_out)
            self.register_buffer("mask", torch.triu(torch.ones(32, 32), diagonal=1))

        def forward(self, x):
            b, num_tokens, _ = x.shape
            queries = self.W_query(x).view(b, num_tokens, -1, self.size).transpose(1, 2)
            keys = self.W_key(x).view(b, num_tokens, -1, self.size).transpose(1, 2)
            values = self.W_value(x).view(b, num_tokens, -1, self.size).transpose(1, 2)
            keys, values = keys.repeat_interleave(self.share, dim=1), values.repeat_interleave(self.share, dim=1)
            attn_scores = queries @ keys.transpose(2, 3)
            attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
            attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
            context_vec = (attn_weights @ values).transpose(1, 2).contiguous().view(b, num_tokens, -1)
            return self.out_proj(context_vec)

    torch.manual_seed(25)
    return GroupedAttention(10, 28, 4, 2), some_x(3, 6, 10), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def grouped_by_einsum():
    class GroupedEinsum(nn.Module):
        def __init__(self, d_model, groups, per_group, d):
            super().__init__()
            self.q = nn.Parameter(torch.randn(d_model, groups, per_group, d) / d_model**0.5)
            self.k = nn.Parameter(torch.randn(d_model, groups, d) / d_model**0.5)
            self.v = nn.Parameter(torch.randn(d_model, groups, d) / d_model**0.5)
            self.o = nn.Parameter(torch.randn(groups, per_group, d, d_model + 1) / d**0.5)

        def forward(self, x):
            q = torch.einsum("btm,mgrd->bgrtd", x, self.q) * self.q.shape[-1] ** -0.5
            k = torch.einsum("bsm,mgd->bgsd", x, self.k)
            v = torch.einsum("bsm,mgd->bgsd", x, self.v)
            logits = torch.einsum("bgrtd,bgsd->bgrts", q, k)
            allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            probs = torch.softmax(torch.where(allowed, logits, -torch.inf), dim=-1)
            return torch.einsum("bgrts,bgsd,grdm->btm", probs, v, self.o)

    torch.manual_seed(26)
    return GroupedEinsum(11, 3, 2, 5), some_x(2, 8, 11), {"num_heads": 6, "num_kv_heads": 3}


@case(None)
def grouped_by_enable_gqa():
    class FusedGrouped(nn.Module):
        def __init__(self, d_in, h, g, d, dropout=0.1):
            super().__init__()
            self.h, self.g, self.dropout = h, g, dropout
            self.qkv = nn.Linear(d_in, (h + 2 * g) * d)
            self.out = nn.Linear(h * d, h * d)

        def forward(self, x):
            qkv = self.qkv(x).unflatten(-1, (self.h + 2 * self.g, -1)).transpose(1, 2)
            q, k, v = qkv.split([self.h, self.g, self.g], dim=1)
            p = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True, enable_gqa=True)
            return self.out(y.transpose(1, 2).flatten(2))

    torch.manual_seed(27)
    return FusedGrouped(16, 6, 2, 4), some_x(3, 5, 16), {"num_heads": 6, "num_kv_heads": 2}


# One head, and other widths


@case(None)
def single_head_with_context_length():
    class CausalAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.dropout = nn.Dropout(dropout)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

        def forward(self, x):
            num_tokens = x.shape[1]
            keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
            attn_scores = queries @ keys.transpose(1, 2)
            attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
            attn_weights = self.dropout(torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1))
            return attn_weights @ values

    torch.manual_seed(29)
    return CausalAttention(9, 7, 64, 0.1), some_x(3, 6, 9), {"num_heads": 1}


@case(None)
def single_head_with_projection():
    class Attend(nn.Module):
        def __init__(self, d_in, d_attn, d_out):
            super().__init__()
            self.Wq, self.Wk, self.Wv = (nn.Parameter(torch.randn(d_in, d_attn) / d_in**0.5) for _ in range(3))
            self.Wo = nn.Parameter(torch.randn(d_attn, d_out) / d_attn**0.5)

        def forward(self, X):
            Q, K, V = X @ self.Wq, X @ self.Wk, X @ self.Wv
            S = (Q / Q.shape[-1] ** 0.5) @ K.transpose(-1, -2)
            S = S.masked_fill(torch.ones_like(S[0]).triu(1) == 1, torch.finfo(S.dtype).min)
            return S.softmax(-1) @ V @ self.Wo

    torch.manual_seed(31)
    return Attend(10, 6, 17), some_x(4, 7, 10), {"num_heads": 1}


# The same softmax, written otherwise


@case(None)
def where_with_lowest_number():
    class Attention(nn.Module):
        def __init__(self, d_in, d_out, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.c_attn = nn.Linear(d_in, 3 * d_out)
            self.c_proj = nn.Linear(d_out, d_out)
            self.register_buffer("bias", torch.tril(torch.ones(64, 64, dtype=torch.bool))[None, None], persistent=False)

        def forward(self, x):
            b, n, _ = x.shape
            query, key, value = (
                one.view(b, n, self.num_heads, -1).transpose(1, 2) for one in self.c_attn(x).chunk(3, dim=2)
            )
            w = torch.matmul(query, key.transpose(-1, -2)) / value.size(-1) ** 0.5
            lowest = torch.full([], torch.finfo(w.dtype).min, dtype=w.dtype, device=w.device)
            w = torch.where(self.bias[:, :, :n, :n], w, lowest).softmax(dim=-1)
            return self.c_proj(torch.matmul(w, value).transpose(1, 2).reshape(b, n, -1))

    torch.manual_seed(34)
    return Attention(10, 24, 3), some_x(2, 5, 10), {"num_heads": 3}


@case(None)
def subtract_a_billion():
    class ConvStyle(nn.Module):
        def __init__(self, n_in, n_state, n_head):
            super().__init__()
            self.n_head = n_head
            self.attn, self.proj = nn.Linear(n_in, 3 * n_state), nn.Linear(n_state, n_state)

        def forward(self, x):
            q, k, v = (self.attn(x).unflatten(-1, (3, self.n_head, -1)).permute(2, 0, 3, 1, 4)).unbind(0)
            nd, ns = q.shape[-2], k.shape[-2]
            i, j = torch.arange(nd, device=x.device)[:, None], torch.arange(ns, device=x.device)
            b = (i >= j - ns + nd).to(x.dtype)
            w = (q * q.shape[-1] ** -0.5) @ k.mT
            w = w * b - 1e9 * (1 - b)
            return self.proj((w.softmax(-1) @ v).permute(0, 2, 1, 3).flatten(2))

    torch.manual_seed(35)
    return ConvStyle(11, 30, 5), some_x(2, 8, 11), {"num_heads": 5}


@case(None)
def exp_of_log_softmax():
    class LogSpace(nn.Module):
        def __init__(self, width, heads, head_width):
            super().__init__()
            self.heads, self.root = heads, head_width**0.25
            self.q, self.k, self.v = (nn.Linear(width, heads * head_width) for _ in range(3))
            self.join = nn.Linear(heads * head_width, width - 2)

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            logits = (q / self.root) @ (k / self.root).transpose(-1, -2)
            logits = logits.masked_fill(torch.ones_like(logits, dtype=torch.bool).triu(1), -torch.inf)
            log_weights = logits - logits.logsumexp(dim=-1, keepdim=True)
            return self.join((log_weights.exp() @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(39)
    return LogSpace(16, 3, 7), some_x(2, 6, 16), {"num_heads": 3}


# PyTorch's own


@case(None)
def torch_function_with_own_weights():
    class ByFunction(nn.Module):
        def __init__(self, width, heads, d_out):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
            self.out = nn.Linear(width, d_out)

        def forward(self, x):
            x = x.transpose(0, 1)
            length, _, width = x.shape
            y, _ = F.multi_head_attention_forward(
                x, x, x, width, self.heads, None, torch.cat([self.q.bias, self.k.bias, self.v.bias]),
                None, None, False, 0.0, self.out.weight, self.out.bias, training=self.training, need_weights=False,
                attn_mask=torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1),
                use_separate_proj_weight=True,
                q_proj_weight=self.q.weight, k_proj_weight=self.k.weight, v_proj_weight=self.v.weight,
            )  # fmt: skip
            return y.transpose(0, 1)

    torch.manual_seed(46)
    return ByFunction(16, 4, 11), some_x(3, 6, 16), {"num_heads": 4}


@case(None)
def fused_kernel_is_causal():
    class Fused(nn.Module):
        def __init__(self, d_in, d_out, n_head, dropout=0.1):
            super().__init__()
            self.n_head, self.dropout = n_head, dropout
            self.c_attn, self.c_proj = nn.Linear(d_in, 3 * d_out, bias=False), nn.Linear(d_out, d_out, bias=False)
            self.resid_dropout = nn.Dropout(dropout)

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = (u.view(B, T, self.n_head, -1).transpose(1, 2) for u in self.c_attn(x).tensor_split(3, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, None, self.dropout if self.training else 0, is_causal=True)
            return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, -1)))

    torch.manual_seed(47)
    return Fused(14, 20, 4), some_x(2, 7, 14), {"num_heads": 4}


@case(None)
def fused_kernel_with_causal_bias():
    class Fused(nn.Module):
        def __init__(self, d_in, heads, d):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v = (nn.Linear(d_in, heads * d) for _ in range(3))
            self.o = nn.Linear(heads * d, heads * d)

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            mask = causal_lower_right(q.shape[-2], k.shape[-2])
            return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))

    torch.manual_seed(48)
    return Fused(10, 3, 8), some_x(4, 6, 10), {"num_heads": 3}


# Other layouts


@case(None)
def einsum_with_ellipsis():
    class AnyAxes(nn.Module):
        def __init__(self, d_in, heads, d):
            super().__init__()
            self.heads = heads
            self.wq, self.wk, self.wv = (nn.Linear(d_in, heads * d) for _ in range(3))
            self.wo = nn.Linear(heads * d, heads * d)

        def forward(self, x):
            q, k, v = (w(x).unflatten(-1, (self.heads, -1)) for w in (self.wq, self.wk, self.wv))
            scores = torch.einsum("...qhd,...khd->...hqk", q, k) / math.sqrt(q.shape[-1])
            time = torch.arange(x.shape[-2], device=x.device)
            scores = torch.where(time[:, None] >= time, scores, float("-inf"))
            context = torch.einsum("...hqk,...khd->...qhd", torch.softmax(scores, -1), v)
            return self.wo(context.flatten(-2))

    torch.manual_seed(55)
    return AnyAxes(11, 5, 4), some_x(2, 8, 11), {"num_heads": 5}


@case(None)
def triple_inside_each_head():
    class NeoXPacking(nn.Module):
        def __init__(self, hidden_size, num_heads, head_size):
            super().__init__()
            self.num_heads, self.head_size = num_heads, head_size
            self.query_key_value = nn.Linear(hidden_size, 3 * num_heads * head_size)
            self.dense = nn.Linear(num_heads * head_size, num_heads * head_size)
            mask = torch.tril(torch.ones((64, 64), dtype=torch.uint8)).view(1, 1, 64, 64)
            self.register_buffer("bias", mask, persistent=False)

        def forward(self, hidden_states):
            b, t, _ = hidden_states.shape
            qkv = self.query_key_value(hidden_states).view(b, t, self.num_heads, 3 * self.head_size)
            size = self.head_size
            query = qkv[..., :size].permute(0, 2, 1, 3)
            key = qkv[..., size : 2 * size].permute(0, 2, 1, 3)
            value = qkv[..., 2 * size :].permute(0, 2, 1, 3)
            scores = torch.einsum("bhid,bhjd->bhij", query / size**0.5, key)
            scores = scores.masked_fill(self.bias[:, :, :t, :t].logical_not(), torch.finfo(scores.dtype).min)
            return self.dense((scores.softmax(-1) @ value).permute(0, 2, 1, 3).reshape(b, t, -1))

    torch.manual_seed(58)
    return NeoXPacking(12, 5, 3), some_x(2, 6, 12), {"num_heads": 5}


@case(None)
def loop_over_tokens():
    class StepByStep(nn.Module):
        def __init__(self, d_in, heads, d):
            super().__init__()
            self.heads, self.d = heads, d
            self.q, self.k, self.v = (nn.Linear(d_in, heads * d) for _ in range(3))
            self.o = nn.Linear(heads * d, heads * d)

        def forward(self, x):
            keys, values, outputs = [], [], []
            for token in x.unbind(1):
                query = self.q(token).view(-1, self.heads, 1, self.d)
                keys.append(self.k(token).view(-1, self.heads, self.d))
                values.append(self.v(token).view(-1, self.heads, self.d))
                past = torch.stack(keys, dim=2)
                weights = torch.softmax((query * past).sum(-1) / self.d**0.5, dim=-1)
                mixed = (weights[..., None] * torch.stack(values, dim=2)).sum(2)
                outputs.append(self.o(mixed.flatten(1)))
            return torch.stack(outputs, dim=1)

    torch.manual_seed(61)
    return StepByStep(9, 4, 6), some_x(3, 5, 9), {"num_heads": 4}


# More around it


@case(None)
def norm_before_the_projections():
    class PreNormAttention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads = heads
            self.norm = nn.LayerNorm(dim)
            self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
            self.to_out = nn.Linear(heads * dim_head, dim + 3, bias=False)

        def forward(self, x):
            x = self.norm(x)
            q, k, v = (u.unflatten(-1, (self.heads, -1)).transpose(1, 2) for u in self.to_qkv(x).chunk(3, dim=-1))
            dots = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
            dots = dots.masked_fill(torch.ones_like(dots[0, 0], dtype=torch.bool).triu(1), -torch.inf)
            return self.to_out((dots.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(64)
    return PreNormAttention(13, 4, 5), some_x(2, 6, 13), {"num_heads": 4}


@case(None)
def residual_inside():
    class ResidualAttention(nn.Module):
        def __init__(self, width, n_heads, d):
            super().__init__()
            self.n_heads = n_heads
            self.ln_1 = nn.LayerNorm(width)
            self.attn, self.proj = nn.Linear(width, 3 * n_heads * d), nn.Linear(n_heads * d, width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.attn(self.ln_1(x)).view(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
            scores = (q * q.shape[-1] ** -0.5) @ k.mT
            scores = scores.masked_fill(torch.ones(t, t, device=x.device).tril() == 0, float("-inf"))
            return x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(66)
    return ResidualAttention(14, 5, 4), some_x(3, 6, 14), {"num_heads": 5}


@case(None)
def dropout_in_three_places():
    class DropEverywhere(nn.Module):
        def __init__(self, d_in, d_out, heads, p=0.2):
            super().__init__()
            self.heads, self.p = heads, p
            self.q, self.k, self.v = (nn.Linear(d_in, d_out) for _ in range(3))
            self.o = nn.Linear(d_out, d_out)
            self.input_drop, self.output_drop = nn.Dropout(p), nn.Dropout(p)

        def forward(self, x):
            x = self.input_drop(x)
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            w = (q * q.shape[-1] ** -0.5) @ k.mT
            w = w.masked_fill(torch.ones_like(w[0, 0]).triu(1).bool(), -torch.inf).softmax(-1)
            w = F.dropout(w, self.p, training=self.training)
            return self.output_drop(self.o((w @ v).transpose(1, 2).flatten(2)))

    torch.manual_seed(70)
    return DropEverywhere(12, 20, 4), some_x(3, 7, 12), {"num_heads": 4}


@case(None)
def core_without_parameters():
    class Core(nn.Module):
        def forward(self, query, key, value, mask=None):
            scores = (query / query.size(-1) ** 0.5) @ key.transpose(-2, -1)
            if mask is not None:
                scores = scores.masked_fill(mask, -torch.inf)
            return scores.softmax(-1) @ value

    class Attention(nn.Module):
        def __init__(self, d_in, heads, d):
            super().__init__()
            self.heads, self.core = heads, Core()
            self.linears = nn.ModuleList([nn.Linear(d_in, heads * d) for _ in range(3)])
            self.final = nn.Linear(heads * d, heads * d)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (
                f(u).view(b, t, self.heads, -1).transpose(1, 2) for f, u in zip(self.linears, (x, x, x), strict=True)
            )
            y = self.core(q, k, v, mask=torch.ones(t, t, device=x.device).triu(1).bool())
            return self.final(y.transpose(1, 2).contiguous().view(b, t, -1))

    torch.manual_seed(75)
    return Attention(11, 4, 5), some_x(3, 6, 11), {"num_heads": 4}


@case(None)
def function_of_a_dict():
    def attention(params, n_heads, x):
        w = {name: tensor.to(x) for name, tensor in params.items()}
        b, t, _ = x.shape
        q = F.linear(x, w["q.weight"], w["q.bias"]).view(b, t, n_heads, -1).transpose(1, 2)
        k = F.linear(x, w["k.weight"]).view(b, t, n_heads, -1).transpose(1, 2)
        v = F.linear(x, w["v.weight"], w["v.bias"]).view(b, t, n_heads, -1).transpose(1, 2)
        att = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)
        att = att.masked_fill(torch.ones(t, t, device=x.device).triu(1).bool(), -torch.inf).softmax(-1)
        return F.linear((att @ v).transpose(1, 2).reshape(b, t, -1), w["o.weight"], w["o.bias"])

    g = torch.Generator().manual_seed(76)
    params = {f"{name}.weight": torch.randn(18, 10, generator=g) / 3 for name in "qkv"}
    params |= {f"{name}.bias": torch.randn(18, generator=g) for name in "qv"}
    params |= {"o.weight": torch.randn(13, 18, generator=g) / 4, "o.bias": torch.randn(13, generator=g)}
    return functools.partial(attention, params, 3), some_x(2, 7, 10), {"num_heads": 3}


@case(None)
def addmm_and_tensordot():
    class Contractions(nn.Module):
        def __init__(self, d_in, heads, d, d_out):
            super().__init__()
            self.w = nn.Parameter(torch.randn(d_in, 3 * heads * d) / d_in**0.5)
            self.b = nn.Parameter(torch.randn(3 * heads * d))
            self.w_out = nn.Parameter(torch.randn(heads, d, d_out) / (heads * d) ** 0.5)

        def forward(self, x):
            b, t, _ = x.shape
            heads, d, _ = self.w_out.shape
            flat = torch.addmm(self.b, x.reshape(b * t, -1), self.w)
            q, k, v = flat.view(b, t, 3, heads, d).permute(2, 0, 3, 1, 4).flatten(1, 2)  # (batch * head, token, d)
            future = torch.zeros(t, t, dtype=x.dtype, device=x.device)
            future = future.masked_fill(torch.ones_like(future).triu(1).bool(), -torch.inf)
            scores = torch.baddbmm(future.expand(b * heads, t, t), q, k.mT, alpha=1 / math.sqrt(d))
            context = scores.softmax(-1).bmm(v).view(b, heads, t, d)
            return torch.tensordot(context, self.w_out, dims=([1, 3], [0, 1]))

    torch.manual_seed(78)
    return Contractions(11, 4, 5, 17), some_x(3, 7, 11), {"num_heads": 4}


@case(None)
def list_of_heads_with_values_of_other_width():
    class Head(nn.Module):
        def __init__(self, d_in, d_k, d_v):
            super().__init__()
            self.query, self.key = nn.Linear(d_in, d_k, bias=False), nn.Linear(d_in, d_k, bias=False)
            self.value = nn.Linear(d_in, d_v, bias=False)
            self.register_buffer("tril", torch.tril(torch.ones(32, 32)))

        def forward(self, x):
            T = x.shape[1]
            wei = (self.query(x) * self.key.out_features**-0.5) @ self.key(x).transpose(-2, -1)
            wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
            return F.softmax(wei, dim=-1) @ self.value(x)

    class Heads(nn.Module):
        def __init__(self, d_in, heads, d_k, d_v):
            super().__init__()
            self.heads = nn.ModuleList(Head(d_in, d_k, d_v) for _ in range(heads))
            self.proj, self.dropout = nn.Linear(heads * d_v, heads * d_v), nn.Dropout(0.1)

        def forward(self, x):
            return self.dropout(self.proj(torch.cat([head(x) for head in self.heads], dim=-1)))

    torch.manual_seed(81)
    return Heads(11, 4, 3, 6), some_x(2, 7, 11), {"num_heads": 4}


# The course's own classes


@case(None)
def course_multi_head_with_padding():
    def keep(x):
        num_tokens = x.shape[1]
        return padding_keep([max(1, num_tokens - 2)] * len(x), num_tokens, side="left", device=x.device)

    torch.manual_seed(83)
    x = some_x(3, 7, 10)
    options = {"num_heads": 4, "keep": keep(x), "call": lambda m, x: m(x, keep=keep(x))}
    return MultiHeadAttention(10, 24, 4), x, options


@case(None)
def course_grouped_query_with_window():
    def window(x):
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(-2)

    torch.manual_seed(85)
    x = some_x(3, 8, 13)
    options = {"num_heads": 6, "num_kv_heads": 2, "keep": window(x), "call": lambda m, x: m(x, keep=window(x))}
    return GroupedQueryAttention(13, 30, 6, 2), x, options


# Norms of queries and keys


class OfUnitLength(nn.Module):
    """Queries and keys have a length of 1, so that scores are cosines times a number, as in Swin 2."""

    def __init__(self, width, heads, factor):
        super().__init__()
        self.heads, self.factor = heads, factor
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def normed(self, t):
        return F.normalize(t, dim=-1)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = self.normed(q) @ self.normed(k).mT * self.factor
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        return self.out((scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2))


@case(None)
def mean_squares_of_1_and_a_tuned_scale():
    class Attention(OfUnitLength):
        def normed(self, t):
            return F.rms_norm(t, (t.shape[-1],))

    torch.manual_seed(92)
    return Attention(12, 3, 0.12), some_x(2, 5, 12), {"num_heads": 3}


# Rotations by given positions


@case(None)
def rotations_by_points_of_an_image():
    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x, cos, sin):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (t * cos + torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2) * sin for t in (q, k))
            weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
            return self.out((weights @ v).transpose(1, 2).flatten(2))

    points = torch.rand(7, 2, generator=torch.Generator().manual_seed(2)) * 3

    def call(module, x):
        angles = points[: x.shape[1]].to(x).repeat_interleave(2, dim=-1)
        return module(x, angles.cos(), angles.sin())

    torch.manual_seed(93)
    return Attention(12, 3), some_x(2, 5, 12), {"num_heads": 3, "call": call, "causal": False}


@case(None)
def angles_of_eight_bits():
    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            rates = 100.0 ** -torch.arange(0, 1, 2 / q.shape[-1], device=x.device, dtype=x.dtype)
            angles = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)[:, None] * rates
            cos, sin = angles.cos().bfloat16().repeat(1, 2), angles.sin().bfloat16().repeat(1, 2)
            q, k = ((t * cos + torch.cat([-t[..., 2:], t[..., :2]], -1) * sin).type_as(x) for t in (q, k))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(out.transpose(1, 2).flatten(2))

    torch.manual_seed(94)
    return Attention(12, 3), some_x(2, 5, 12), {"num_heads": 3}


# Devices


@case(None)
def a_cache_that_the_caller_moves():
    class Store(nn.Module):
        def __init__(self, *shape):
            super().__init__()
            self.register_buffer("keys", torch.zeros(shape))
            self.register_buffer("values", torch.zeros(shape))

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
            self.store = None

        def forward(self, x, start):
            end = start + x.shape[1]
            self.store.keys[:, start:end], self.store.values[:, start:end] = self.k(x), self.v(x)
            scores = self.q(x) @ self.store.keys[:, :end].mT / x.shape[-1] ** 0.5
            return self.o(scores.softmax(-1) @ self.store.values[:, :end])

    def call(module, x):
        module.store = Store(len(x), 16, x.shape[2]).to(x.device, x.dtype)
        return torch.cat([module(x[:, at : at + 1], at) for at in range(x.shape[1])], dim=1)

    torch.manual_seed(95)
    return Attention(9), some_x(2, 5, 9), {"num_heads": 1, "call": call}


@case(None)
def rates_on_the_cpu_and_angles_moved():
    class Rates(nn.Module):
        def __init__(self, head_dim):
            super().__init__()
            self.rates = 100.0 ** -torch.arange(0, 1, 2 / head_dim)  # no buffer: stays on the CPU

        def forward(self, x):
            steps = torch.arange(x.shape[1], device=x.device).type_as(self.rates)
            angles = torch.outer(steps, self.rates).to(x.device)
            return angles.cos().repeat(1, 2).to(x.dtype), angles.sin().repeat(1, 2).to(x.dtype)

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.rates = heads, Rates(width // heads)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            cos, sin = self.rates(x)
            q, k = (t * cos + torch.cat([-t[..., 2:], t[..., :2]], -1) * sin for t in (q, k))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(out.transpose(1, 2).flatten(2))

    torch.manual_seed(96)
    return Attention(12, 3), some_x(2, 5, 12), {"num_heads": 3}


@case(None)
def gates_that_forget_from_key_to_query():
    class ForgettingAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, d_out // num_heads
            self.qkv, self.gate, self.o = (
                nn.Linear(d_in, 3 * d_out),
                nn.Linear(d_in, num_heads),
                nn.Linear(d_out, d_out),
            )

        def forward(self, x):
            q, k, v = (one.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
            kept = F.logsigmoid(self.gate(x)).cumsum(1).transpose(1, 2)
            scores = q @ k.mT / math.sqrt(self.head_dim) + kept[..., :, None] - kept[..., None, :]
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            context = scores.masked_fill(later, -torch.inf).softmax(-1) @ v
            return self.o(context.transpose(1, 2).flatten(2))

    torch.manual_seed(91)
    return ForgettingAttention(14, 12, 3), some_x(2, 6, 14), {"num_heads": 3}
