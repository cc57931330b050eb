"""Attention whose scores or weights are wrong: what is compared, how it is scaled and what softmax does with it."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


# scores-from-values


@case("scores-from-values")
def notebook_single_head():
    class SelfAttentionV2(nn.Module):
        def __init__(self, d_in, d_out, context_length, dropout=0.1, qkv_bias=False):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.dropout = nn.Dropout(dropout)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

        def forward(self, x):
            num_tokens = x.shape[1]
            keys = self.W_key(x)
            queries = self.W_query(x)
            values = self.W_value(x)
            attn_scores = queries @ values.transpose(1, 2)  # wrong
            attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
            attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
            return self.dropout(attn_weights) @ values

    torch.manual_seed(1)
    return SelfAttentionV2(9, 7, 32), some_x(2, 5, 9), {"num_heads": 1}


@case("scores-from-values")
def packed_gpt_block():
    class CausalSelfAttention(nn.Module):
        def __init__(self, n_in, n_embd, n_head, block_size=64):
            super().__init__()
            self.c_attn = nn.Linear(n_in, 3 * n_embd)
            self.c_proj = nn.Linear(n_embd, n_embd)
            self.n_head, self.n_embd = n_head, n_embd
            self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size))[None, None])

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
            k = k.view(B, T, self.n_head, -1).transpose(1, 2)
            q = q.view(B, T, self.n_head, -1).transpose(1, 2)
            v = v.view(B, T, self.n_head, -1).transpose(1, 2)
            att = (q @ v.transpose(-2, -1)) * (1.0 / math.sqrt(q.size(-1)))  # wrong
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, -1))

    torch.manual_seed(2)
    return CausalSelfAttention(13, 20, 4), some_x(3, 6, 13), {"num_heads": 4}


@case("scores-from-values")
def fused_kernel():
    class Attention(nn.Module):
        def __init__(self, dim, inner, heads):
            super().__init__()
            self.heads = heads
            self.to_q, self.to_k = nn.Linear(dim, inner, bias=False), nn.Linear(dim, inner, bias=False)
            self.to_v, self.to_out = nn.Linear(dim, inner, bias=False), nn.Linear(inner, dim)

        def split(self, t):
            return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        def forward(self, x):
            q = self.split(self.to_q(x))
            k = self.split(self.to_k(x))
            v = self.split(self.to_v(x))
            assert k.shape == v.shape
            out = F.scaled_dot_product_attention(q, v, v, is_causal=True)  # wrong
            return self.to_out(out.transpose(1, 2).flatten(2))

    torch.manual_seed(3)
    return Attention(16, 18, 3), some_x(2, 7, 16), {"num_heads": 3}


@case("scores-from-values")
def heads_in_a_list():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size, block_size):
            super().__init__()
            self.key = nn.Linear(n_embd, head_size, bias=False)
            self.query = nn.Linear(n_embd, head_size, bias=False)
            self.value = nn.Linear(n_embd, head_size, bias=False)
            self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            T = x.shape[1]
            k, q, v = self.key(x), self.query(x), self.value(x)
            wei = q @ v.transpose(-2, -1) * k.shape[-1] ** -0.5  # wrong
            wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
            return self.dropout(F.softmax(wei, dim=-1)) @ v

    class MultiHead(nn.Module):
        def __init__(self, n_embd, head_size, n_head):
            super().__init__()
            self.heads = nn.ModuleList([Head(n_embd, head_size, 32) for _ in range(n_head)])
            self.proj = nn.Linear(n_head * head_size, n_embd)

        def forward(self, x):
            return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))

    torch.manual_seed(4)
    return MultiHead(11, 6, 3), some_x(4, 8, 11), {"num_heads": 3}


@case("scores-from-values")
def grouped_with_einsum():
    class GroupedQueryAttention(nn.Module):
        def __init__(self, hidden, n_q, n_kv, size):
            super().__init__()
            self.n_q, self.n_kv, self.size = n_q, n_kv, size
            self.q_proj = nn.Linear(hidden, n_q * size, bias=False)
            self.k_proj = nn.Linear(hidden, n_kv * size, bias=False)
            self.v_proj = nn.Linear(hidden, n_kv * size, bias=False)
            self.o_proj = nn.Linear(n_q * size, hidden, bias=False)

        def forward(self, hidden_states):
            b, t, _ = hidden_states.shape
            q = self.q_proj(hidden_states).view(b, t, self.n_q, self.size)
            k = self.k_proj(hidden_states).view(b, t, self.n_kv, self.size)
            v = self.v_proj(hidden_states).view(b, t, self.n_kv, self.size)
            k = k.repeat_interleave(self.n_q // self.n_kv, dim=2)
            v = v.repeat_interleave(self.n_q // self.n_kv, dim=2)
            logits = torch.einsum("bihd,bjhd->bhij", q, v) / math.sqrt(self.size)  # wrong
            i = torch.arange(t, device=q.device)
            logits = torch.where(i[:, None] >= i, logits, torch.finfo(logits.dtype).min)
            mixed = torch.einsum("bhij,bjhd->bihd", logits.softmax(dim=-1), v)
            return self.o_proj(mixed.flatten(2))

    torch.manual_seed(5)
    return GroupedQueryAttention(14, 6, 2, 4), some_x(3, 5, 14), {"num_heads": 6, "num_kv_heads": 2}


@case("scores-from-values")
def heads_folded_into_batch():
    class MHA(nn.Module):
        def __init__(self, d_model, d_k, n_heads):
            super().__init__()
            self.n_heads, self.d_k = n_heads, d_k
            self.linears = nn.ModuleList([nn.Linear(d_model, d_k * n_heads) for _ in range(3)])
            self.final = nn.Linear(d_k * n_heads, d_model)

        def fold(self, t):
            b, n, _ = t.shape
            return t.view(b, n, self.n_heads, self.d_k).permute(0, 2, 1, 3).reshape(b * self.n_heads, n, self.d_k)

        def forward(self, x):
            b, n, _ = x.shape
            query, key, value = [self.fold(linear(x)) for linear in self.linears]
            key = value.transpose(1, 2)  # wrong
            energy = torch.bmm(query, key) / self.d_k**0.5
            future = torch.ones(n, n, device=x.device, dtype=torch.bool).triu(1)
            attention = energy.masked_fill(future, float("-inf")).softmax(dim=-1)
            merged = torch.bmm(attention, value).view(b, self.n_heads, n, self.d_k).transpose(1, 2)
            return self.final(merged.reshape(b, n, -1))

    torch.manual_seed(6)
    return MHA(17, 5, 4), some_x(2, 6, 17), {"num_heads": 4}


@case("scores-from-values")
def function_over_tokens():
    torch.manual_seed(7)
    w_q, w_k, w_v = (torch.randn(10, 8) / 3 for _ in range(3))

    def attend(x):
        q, k, v = x @ w_q.to(x), x @ w_k.to(x), x @ w_v.to(x)
        rows = []
        for i in range(x.shape[1]):
            score = (v[:, : i + 1] * q[:, i : i + 1]).sum(-1) / math.sqrt(k.shape[-1])  # wrong
            weight = score.softmax(dim=-1)
            rows.append((weight.unsqueeze(-1) * v[:, : i + 1]).sum(dim=1))
        return torch.stack(rows, dim=1)

    return attend, some_x(3, 5, 10), {"num_heads": 1}


# projection-reused


@case("projection-reused")
def keys_by_query_layer():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.1):
            super().__init__()
            self.d_out, self.num_heads, self.head_dim = d_out, num_heads, d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.out_proj = nn.Linear(d_out, d_out)
            self.dropout = nn.Dropout(dropout)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

        def forward(self, x):
            b, num_tokens, _ = x.shape
            queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            keys = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)  # wrong
            values = self.W_value(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            attn_scores = queries @ keys.transpose(2, 3)
            attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
            attn_weights = self.dropout(torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1))
            context_vec = (attn_weights @ values).transpose(1, 2).contiguous().view(b, num_tokens, self.d_out)
            return self.out_proj(context_vec)

    torch.manual_seed(11)
    return MultiHeadAttention(12, 20, 32, 4), some_x(3, 7, 12), {"num_heads": 4}


@case("projection-reused")
def values_by_key_layer():
    class Head(nn.Module):
        def __init__(self, width, head_size):
            super().__init__()
            self.key = nn.Linear(width, head_size, bias=False)
            self.query = nn.Linear(width, head_size, bias=False)
            self.value = nn.Linear(width, head_size, bias=False)

        def forward(self, x):
            k = self.key(x)
            q = self.query(x)
            wei = q @ k.transpose(1, 2) * k.size(-1) ** -0.5
            allowed = torch.ones(x.size(1), x.size(1), device=x.device).tril()
            wei = wei.masked_fill(allowed == 0, float("-inf")).softmax(-1)
            v = self.key(x)  # wrong
            return wei @ v

    class Heads(nn.Module):
        def __init__(self, width, n, head_size):
            super().__init__()
            self.sa = nn.ModuleList(Head(width, head_size) for _ in range(n))
            self.ffwd = nn.Linear(n * head_size, width)

        def forward(self, x):
            return self.ffwd(torch.cat([sa(x) for sa in self.sa], -1))

    torch.manual_seed(12)
    return Heads(19, 5, 3), some_x(2, 6, 19), {"num_heads": 5}


@case("projection-reused")
def slices_of_a_packed_layer():
    class Attn(nn.Module):
        def __init__(self, d_in, d, h):
            super().__init__()
            self.d, self.h = d, h
            self.in_proj = nn.Linear(d_in, 3 * d)
            self.out_proj = nn.Linear(d, d_in)

        def cut(self, t):
            return t.reshape(*t.shape[:2], self.h, self.d // self.h).permute(0, 2, 1, 3)

        def forward(self, x):
            qkv = self.in_proj(x)
            q = self.cut(qkv[..., : self.d])
            k = self.cut(qkv[..., self.d : 2 * self.d])
            v = self.cut(qkv[..., self.d : 2 * self.d])  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out_proj(y.permute(0, 2, 1, 3).flatten(2))

    torch.manual_seed(13)
    return Attn(10, 21, 3), some_x(4, 5, 10), {"num_heads": 3}


@case("projection-reused")
def vision_style_unbind():
    class Attention(nn.Module):
        def __init__(self, dim, num_heads, head_dim, attn_drop=0.1):
            super().__init__()
            self.num_heads, self.head_dim, self.scale = num_heads, head_dim, head_dim**-0.5
            self.qkv = nn.Linear(dim, num_heads * head_dim * 3, bias=False)
            self.attn_drop = nn.Dropout(attn_drop)
            self.proj = nn.Linear(num_heads * head_dim, dim)

        def forward(self, x):
            B, N, _ = x.shape
            qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
            q, k, v = qkv[0], qkv[0], qkv[2]  # wrong
            attn = (q * self.scale) @ k.transpose(-2, -1)
            attn = self.attn_drop(attn.softmax(dim=-1))
            return self.proj((attn @ v).transpose(1, 2).reshape(B, N, -1))

    torch.manual_seed(14)
    return Attention(15, 2, 7), some_x(3, 8, 15), {"num_heads": 2, "causal": False}


@case("projection-reused")
def one_layer_three_times():
    class TinyAttention(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.projections = nn.ModuleList([nn.Linear(d_in, d_out)] * 3)  # wrong

        def forward(self, x):
            q, k, v = (project(x) for project in self.projections)  # wrong
            scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(q.shape[-1])
            later = torch.ones_like(scores).triu(1).bool()
            return torch.einsum("bqk,bkd->bqd", scores.masked_fill(later, -torch.inf).softmax(-1), v)

    torch.manual_seed(15)
    return TinyAttention(8, 6), some_x(2, 7, 8), {"num_heads": 1}


@case("projection-reused")
def index_copied_when_reshaping():
    class BertSelfAttention(nn.Module):
        def __init__(self, hidden_size, heads, head_size):
            super().__init__()
            self.heads, self.head_size = heads, head_size
            self.query = nn.Linear(hidden_size, heads * head_size)
            self.key = nn.Linear(hidden_size, heads * head_size)
            self.value = nn.Linear(hidden_size, heads * head_size)
            self.dense = nn.Linear(heads * head_size, hidden_size)
            self.dropout = nn.Dropout(0.1)

        def transpose_for_scores(self, x):
            return x.view(*x.shape[:-1], self.heads, self.head_size).permute(0, 2, 1, 3)

        def forward(self, hidden_states):
            mixed = [layer(hidden_states) for layer in (self.query, self.key, self.value)]
            q = self.transpose_for_scores(mixed[0])
            k = self.transpose_for_scores(mixed[1])
            v = self.transpose_for_scores(mixed[1])  # wrong
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_size)
            probs = self.dropout(nn.functional.softmax(scores, dim=-1))
            context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
            return self.dense(context.flatten(2))

    torch.manual_seed(16)
    return BertSelfAttention(22, 3, 8), some_x(2, 5, 22), {"num_heads": 3, "causal": False}


@case("projection-reused")
def parameters_per_head():
    class HeadwiseParameters(nn.Module):
        def __init__(self, d, h, e):
            super().__init__()
            self.w_q = nn.Parameter(torch.randn(h, d, e) * d**-0.5)
            self.w_k = nn.Parameter(torch.randn(h, d, e) * d**-0.5)
            self.w_v = nn.Parameter(torch.randn(h, d, e) * d**-0.5)
            self.w_o = nn.Parameter(torch.randn(h, e, d) * (h * e) ** -0.5)

        def forward(self, x):
            q = torch.einsum("btd,hde->bhte", x, self.w_q)
            k = torch.einsum("btd,hde->bhte", x, self.w_k)
            v = torch.einsum("btd,hde->bhte", x, self.w_q)  # wrong
            s = torch.einsum("bhie,bhje->bhij", q, k) * q.shape[-1] ** -0.5
            t = x.shape[1]
            s = s + torch.full((t, t), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            return torch.einsum("bhij,bhje,hed->bid", s.softmax(-1), v, self.w_o)

    torch.manual_seed(17)
    return HeadwiseParameters(9, 5, 4), some_x(3, 6, 9), {"num_heads": 5}


@case("projection-reused")
def grouped_key_values_packed():
    class GQA(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads, head_dim):
            super().__init__()
            self.n_rep, self.head_dim = n_heads // n_kv_heads, head_dim
            self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
            self.wkv = nn.Linear(dim, 2 * n_kv_heads * head_dim, bias=False)
            self.wo = nn.Linear(n_heads * head_dim, dim, bias=False)

        def forward(self, x):
            bsz, seqlen, _ = x.shape
            xq = self.wq(x).view(bsz, seqlen, -1, self.head_dim).transpose(1, 2)
            kv = self.wkv(x).chunk(2, dim=-1)
            xk = kv[1].view(bsz, seqlen, -1, self.head_dim).transpose(1, 2)  # wrong
            xv = kv[1].view(bsz, seqlen, -1, self.head_dim).transpose(1, 2)
            xk, xv = (t.repeat_interleave(self.n_rep, dim=1) for t in (xk, xv))
            mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device, dtype=x.dtype).triu(diagonal=1)
            scores = torch.matmul(xq, xk.transpose(2, 3)) / math.sqrt(self.head_dim) + mask
            output = torch.matmul(F.softmax(scores, dim=-1), xv)
            return self.wo(output.transpose(1, 2).contiguous().view(bsz, seqlen, -1))

    torch.manual_seed(18)
    return GQA(13, 6, 3, 5), some_x(2, 4, 13), {"num_heads": 6, "num_kv_heads": 3}


@case("projection-reused")
def first_head_in_the_second():
    class TwoHeads(nn.Module):
        def __init__(self, d_in, d_head):
            super().__init__()
            self.q1, self.k1, self.v1 = (nn.Linear(d_in, d_head, bias=False) for _ in range(3))
            self.q2, self.k2, self.v2 = (nn.Linear(d_in, d_head, bias=False) for _ in range(3))
            self.out = nn.Linear(2 * d_head, d_in)
            self.d_head = d_head

        def mix(self, scores, values):
            t = torch.arange(scores.shape[-1], device=scores.device)
            hidden = t > t.unsqueeze(1)
            return scores.div(math.sqrt(self.d_head)).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values

        def forward(self, x):
            queries_1, keys_1, values_1 = self.q1(x), self.k1(x), self.v1(x)
            context_1 = self.mix(queries_1 @ keys_1.transpose(1, 2), values_1)
            queries_2, keys_2, values_2 = self.q2(x), self.k1(x), self.v2(x)  # wrong
            context_2 = self.mix(queries_2 @ keys_2.transpose(1, 2), values_2)
            return self.out(torch.cat([context_1, context_2], dim=-1))

    torch.manual_seed(19)
    return TwoHeads(16, 9), some_x(3, 5, 16), {"num_heads": 2}


@case("projection-reused")
def line_forgotten_between_two():
    torch.manual_seed(20)
    d_in, heads, size = 18, 4, 6
    weights = {name: torch.randn(d_in, heads * size) / 4 for name in ("query", "key", "value")}
    w_out = torch.randn(heads * size, d_in) / 5

    def split(t):
        return t.view(t.shape[0], t.shape[1], heads, size).transpose(1, 2)

    def attention(x):
        projected = x @ weights["query"].to(x)
        queries = split(projected)
        projected = x @ weights["key"].to(x)
        keys = split(projected)
        values = split(projected)  # wrong
        attn = queries @ keys.transpose(-2, -1) / size**0.5
        attn = attn.masked_fill(torch.ones(attn.shape[-2:], device=x.device).triu(1) == 1, float("-inf"))
        return (attn.softmax(dim=-1) @ values).transpose(1, 2).flatten(2) @ w_out.to(x)

    return attention, some_x(2, 7, d_in), {"num_heads": heads}


# missing-scale


@case("missing-scale")
def packed_without_division():
    class CausalSelfAttention(nn.Module):
        def __init__(self, width_in, width, n_head, dropout=0.1):
            super().__init__()
            self.c_attn = nn.Linear(width_in, 3 * width, bias=False)
            self.c_proj = nn.Linear(width, width, bias=False)
            self.attn_dropout, self.n_head = nn.Dropout(dropout), n_head
            self.register_buffer("tril", torch.tril(torch.ones(64, 64, dtype=torch.bool)))

        def forward(self, x):
            b, t, _ = x.shape
            qkv = self.c_attn(x).chunk(3, dim=-1)
            q, k, v = (part.view(b, t, self.n_head, -1).transpose(1, 2) for part in qkv)
            att = q @ k.transpose(-2, -1)  # wrong
            att = att.masked_fill(~self.tril[:t, :t], float("-inf"))
            att = self.attn_dropout(F.softmax(att, dim=-1))
            return self.c_proj((att @ v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(21)
    return CausalSelfAttention(11, 24, 3), some_x(2, 5, 11), {"num_heads": 3}


@case("missing-scale")
def parameters_from_memory():
    class SelfAttentionV1(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.W_query = nn.Parameter(torch.rand(d_in, d_out))
            self.W_key = nn.Parameter(torch.rand(d_in, d_out))
            self.W_value = nn.Parameter(torch.rand(d_in, d_out))

        def forward(self, x):
            keys = x @ self.W_key
            queries = x @ self.W_query
            values = x @ self.W_value
            attn_scores = queries @ keys.transpose(-1, -2)  # wrong
            mask = torch.triu(torch.ones_like(attn_scores), diagonal=1).bool()
            attn_weights = torch.softmax(attn_scores.masked_fill(mask, -torch.inf), dim=-1)  # wrong
            return attn_weights @ values

    torch.manual_seed(22)
    return SelfAttentionV1(8, 6), some_x(3, 7, 8, spread=0.5), {"num_heads": 1}


@case("missing-scale")
def kernel_with_scale_one():
    class FlashAttention(nn.Module):
        def __init__(self, embed_dim, inner_dim, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.q_lin = nn.Linear(embed_dim, inner_dim)
            self.k_lin = nn.Linear(embed_dim, inner_dim)
            self.v_lin = nn.Linear(embed_dim, inner_dim)
            self.out_lin = nn.Linear(inner_dim, embed_dim)

        def forward(self, x):
            bs, n, _ = x.shape

            def shape(t):
                return t.view(bs, n, self.num_heads, -1).transpose(1, 2)

            q, k, v = shape(self.q_lin(x)), shape(self.k_lin(x)), shape(self.v_lin(x))
            context = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)  # wrong
            return self.out_lin(context.transpose(1, 2).reshape(bs, n, -1))

    torch.manual_seed(23)
    return FlashAttention(14, 28, 4), some_x(3, 6, 14), {"num_heads": 4}


@case("missing-scale")
def scale_kept_but_not_used():
    class Attention(nn.Module):
        def __init__(self, dim, heads=5, dim_head=6):
            super().__init__()
            self.heads = heads
            self.scale = dim_head**-0.5
            self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
            self.to_out = nn.Sequential(nn.Linear(heads * dim_head, dim), nn.Dropout(0.1))

        def forward(self, x):
            q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(dim=2)
            sim = torch.einsum("bihd,bjhd->bhij", q, k)  # wrong
            i = torch.arange(x.shape[1], device=x.device)
            sim = sim.masked_fill(i[None, :] > i[:, None], -torch.finfo(sim.dtype).max)
            out = torch.einsum("bhij,bjhd->bihd", sim.softmax(dim=-1), v)
            return self.to_out(out.flatten(2))

    torch.manual_seed(24)
    return Attention(17), some_x(2, 8, 17), {"num_heads": 5}


@case("missing-scale")
def division_not_in_place():
    class ScaledDotProduct(nn.Module):
        def __init__(self, d_in, d_head, n):
            super().__init__()
            self.n, self.d_head = n, d_head
            self.wq, self.wk, self.wv = (nn.Linear(d_in, n * d_head) for _ in range(3))
            self.wo = nn.Linear(n * d_head, d_in)

        def forward(self, x):
            outs = []
            qs, ks, vs = self.wq(x), self.wk(x), self.wv(x)
            for q, k, v in zip(*(t.split(self.d_head, dim=-1) for t in (qs, ks, vs)), strict=True):
                scores = torch.bmm(q, k.transpose(1, 2))
                scores.div(math.sqrt(self.d_head))  # wrong
                scores = scores + torch.full_like(scores, -1e9).triu(1)
                outs.append(torch.bmm(scores.softmax(dim=2), v))
            return self.wo(torch.cat(outs, dim=-1))

    torch.manual_seed(25)
    return ScaledDotProduct(10, 9, 2), some_x(4, 6, 10), {"num_heads": 2}


@case("missing-scale")
def grouped_matmul():
    class GroupedAttention(nn.Module):
        def __init__(self, dim, heads, groups, size):
            super().__init__()
            self.heads, self.groups, self.size = heads, groups, size
            self.q = nn.Linear(dim, heads * size, bias=False)
            self.k = nn.Linear(dim, groups * size, bias=False)
            self.v = nn.Linear(dim, groups * size, bias=False)
            self.o = nn.Linear(heads * size, dim, bias=False)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.q(x).view(b, t, self.groups, self.heads // self.groups, self.size).permute(0, 2, 3, 1, 4)
            k = self.k(x).view(b, t, self.groups, 1, self.size).permute(0, 2, 3, 4, 1)
            v = self.v(x).view(b, t, self.groups, 1, self.size).permute(0, 2, 3, 1, 4)
            logits = torch.matmul(q, k)  # wrong
            keep = torch.ones(t, t, device=x.device, dtype=torch.bool).tril()
            probs = torch.softmax(torch.where(keep, logits, float("-inf")), dim=-1)
            y = torch.matmul(probs, v).permute(0, 3, 1, 2, 4).reshape(b, t, -1)
            return self.o(y)

    torch.manual_seed(26)
    return GroupedAttention(20, 4, 2, 7), some_x(3, 5, 20), {"num_heads": 4, "num_kv_heads": 2}


@case("missing-scale")
def function_token_by_token():
    torch.manual_seed(27)
    weights = {name: torch.randn(9, 8) / 3 for name in ("query", "key", "value")}

    def causal_attention(x):
        query, key, value = (x @ weights[name].to(x) for name in ("query", "key", "value"))
        context = torch.zeros_like(value)
        for t in range(x.shape[1]):
            seen = slice(0, t + 1)
            score = torch.einsum("bd,btd->bt", query[:, t], key[:, seen])  # wrong
            context[:, t] = torch.einsum("bt,btd->bd", F.softmax(score, dim=1), value[:, seen])
        return context

    return causal_attention, some_x(2, 6, 9), {"num_heads": 1}


# wrong-scale


@case("wrong-scale")
def root_of_the_model_width():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, context_length=32):
            super().__init__()
            self.d_out, self.num_heads = d_out, num_heads
            self.W_q = nn.Linear(d_in, d_out, bias=False)
            self.W_k = nn.Linear(d_in, d_out, bias=False)
            self.W_v = nn.Linear(d_in, d_out, bias=False)
            self.W_o = nn.Linear(d_out, d_out)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), 1).bool())

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (w(x).view(b, t, self.num_heads, -1).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
            scores = q @ k.transpose(2, 3)
            scores = scores.masked_fill(self.mask[:t, :t], -torch.inf)
            weights = torch.softmax(scores / self.d_out**0.5, dim=-1)  # wrong
            return self.W_o((weights @ v).transpose(1, 2).reshape(b, t, self.d_out))

    torch.manual_seed(31)
    return MultiHeadAttention(13, 24, 4), some_x(2, 7, 13, spread=2.0), {"num_heads": 4}


@case("wrong-scale")
def head_width_without_root():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size):
            super().__init__()
            self.kqv = nn.Linear(n_embd, 3 * head_size, bias=False)
            self.head_size = head_size

        def forward(self, x):
            k, q, v = self.kqv(x).split(self.head_size, dim=-1)
            wei = q @ k.mT / self.head_size  # wrong
            tril = torch.tril(torch.ones(x.size(1), x.size(1), device=x.device))
            return wei.masked_fill(tril == 0, float("-inf")).softmax(-1) @ v

    class MultiHeadAttention(nn.Module):
        def __init__(self, n_embd, head_size, n_head):
            super().__init__()
            self.heads = nn.ModuleList(Head(n_embd, head_size) for _ in range(n_head))
            self.proj, self.dropout = nn.Linear(n_head * head_size, n_embd), nn.Dropout(0.1)

        def forward(self, x):
            return self.dropout(self.proj(torch.cat([head(x) for head in self.heads], dim=-1)))

    torch.manual_seed(32)
    return MultiHeadAttention(12, 7, 3), some_x(4, 6, 12, spread=2.0), {"num_heads": 3}


@case("wrong-scale")
def size_taken_from_the_wrong_axis():
    class SelfAttention(nn.Module):
        def __init__(self, d_model, heads, d_k):
            super().__init__()
            self.heads, self.d_k = heads, d_k
            self.query = nn.Linear(d_model, heads * d_k)
            self.key = nn.Linear(d_model, heads * d_k)
            self.value = nn.Linear(d_model, heads * d_k)
            self.output = nn.Linear(heads * d_k, d_model)

        def forward(self, x):
            b, n, _ = x.shape
            query = self.query(x).view(b, n, self.heads, self.d_k).permute(0, 2, 1, 3)
            key = self.key(x).view(b, n, self.heads, self.d_k).permute(0, 2, 3, 1)
            value = self.value(x).view(b, n, self.heads, self.d_k).permute(0, 2, 1, 3)
            scores = torch.matmul(query, key) / math.sqrt(key.size(-1))  # wrong
            scores = scores.masked_fill(torch.ones(n, n, device=x.device).tril() == 0, -1e9)
            context = torch.matmul(F.softmax(scores, dim=-1), value)
            return self.output(context.transpose(1, 2).contiguous().view(b, n, -1))

    torch.manual_seed(33)
    return SelfAttention(18, 5, 4), some_x(2, 8, 18, spread=2.0), {"num_heads": 5}


@case("wrong-scale")
def scaled_before_the_kernel():
    class Attention(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads, head_dim):
            super().__init__()
            self.head_dim, self.rep = head_dim, n_heads // n_kv_heads
            self.q_proj = nn.Linear(dim, n_heads * head_dim, bias=False)
            self.k_proj = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.v_proj = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.o_proj = nn.Linear(n_heads * head_dim, dim, bias=False)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.q_proj(x).view(b, t, -1, self.head_dim).transpose(1, 2)
            k = self.k_proj(x).view(b, t, -1, self.head_dim).transpose(1, 2).repeat_interleave(self.rep, dim=1)
            v = self.v_proj(x).view(b, t, -1, self.head_dim).transpose(1, 2).repeat_interleave(self.rep, dim=1)
            q = q * self.head_dim**-0.5  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # wrong
            return self.o_proj(y.transpose(1, 2).flatten(2))

    torch.manual_seed(34)
    return Attention(10, 6, 3, 5), some_x(3, 4, 10, spread=2.0), {"num_heads": 6, "num_kv_heads": 3}


@case("wrong-scale")
def scale_of_the_input_width():
    class Attention(nn.Module):
        def __init__(self, dim, heads, dim_head, dropout=0.1):
            super().__init__()
            self.heads = heads
            self.scale = dim**-0.5  # wrong
            self.attend, self.dropout = nn.Softmax(dim=-1), nn.Dropout(dropout)
            self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
            self.to_out = nn.Linear(heads * dim_head, dim)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
            dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale  # wrong
            attn = self.dropout(self.attend(dots))
            return self.to_out(torch.matmul(attn, v).transpose(1, 2).reshape(b, n, -1))

    torch.manual_seed(35)
    return Attention(23, 2, 8), some_x(3, 5, 23, spread=2.0), {"num_heads": 2, "causal": False}


@case("wrong-scale")
def multiplied_by_the_root():
    class OneHead(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.w = nn.ParameterDict({name: nn.Parameter(torch.randn(d_in, d_out) * 0.2) for name in ("q", "k", "v")})
            self.root = math.sqrt(d_out)

        def forward(self, x):
            q, k, v = x @ self.w["q"], x @ self.w["k"], x @ self.w["v"]
            scores = torch.einsum("bqd,bkd->bqk", q, k) * self.root  # wrong
            t = x.shape[1]
            bias = torch.zeros(t, t, device=x.device, dtype=x.dtype)
            bias.masked_fill_(torch.ones(t, t, device=x.device).triu(1) > 0, float("-inf"))
            return (scores + bias).softmax(dim=-1) @ v

    torch.manual_seed(36)
    return OneHead(11, 9), some_x(2, 6, 11), {"num_heads": 1}


@case("wrong-scale")
def divided_a_second_time():
    class Attn(nn.Module):
        def __init__(self, d, h, dh):
            super().__init__()
            self.h, self.dh = h, dh
            self.packed, self.merge = nn.Linear(d, 3 * h * dh), nn.Linear(h * dh, d)

        def queries_keys_values(self, x):
            b, t, _ = x.shape
            q, k, v = self.packed(x).view(b, t, 3, self.h, self.dh).permute(2, 0, 3, 1, 4)
            return q / math.sqrt(self.dh), k, v

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (part.flatten(0, 1) for part in self.queries_keys_values(x))
            later = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), diagonal=1)
            scores = torch.bmm(q, k.transpose(1, 2)).masked_fill(later, float("-inf"))
            weights = F.softmax(scores / math.sqrt(self.dh), dim=-1)  # wrong
            return self.merge(torch.bmm(weights, v).view(b, self.h, t, self.dh).transpose(1, 2).flatten(2))

    torch.manual_seed(37)
    return Attn(16, 3, 6), some_x(2, 7, 16, spread=2.0), {"num_heads": 3}


@case("wrong-scale")
def root_of_the_number_of_heads():
    torch.manual_seed(38)
    heads, d_in, size = 6, 15, 3
    w_qkv, w_o = torch.randn(3, d_in, heads * size) / 4, torch.randn(heads * size, d_in) / 4

    def attention(x):
        b, t, _ = x.shape
        q, k, v = ((x @ w).view(b, t, heads, size).transpose(1, 2) for w in w_qkv.to(x))
        d_k = q.shape[1]
        scores = q @ k.transpose(-1, -2) / d_k**0.5  # wrong
        scores = torch.where(torch.ones(t, t, device=x.device).tril() > 0, scores, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1) @ w_o.to(x)

    return attention, some_x(2, 5, d_in), {"num_heads": heads}


# softmax-wrong-axis


@case("softmax-wrong-axis")
def dim_one_in_a_single_head():
    class CausalAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, dropout=0.1):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.dropout = nn.Dropout(dropout)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

        def forward(self, x):
            num_tokens = x.shape[1]
            keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
            attn_scores = queries @ keys.transpose(1, 2)
            attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
            attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=1)  # wrong
            return self.dropout(attn_weights) @ values

    torch.manual_seed(41)
    return CausalAttention(10, 7, 64), some_x(3, 6, 10), {"num_heads": 1}


@case("softmax-wrong-axis")
def module_kept_from_three_axes():
    class MultiHeadSelfAttention(nn.Module):
        def __init__(self, d_model, num_heads, d_k):
            super().__init__()
            self.num_heads, self.d_k = num_heads, d_k
            self.wq = nn.Linear(d_model, num_heads * d_k)
            self.wk = nn.Linear(d_model, num_heads * d_k)
            self.wv = nn.Linear(d_model, num_heads * d_k)
            self.softmax = nn.Softmax(dim=1)  # wrong
            self.fc = nn.Linear(num_heads * d_k, d_model)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (w(x).view(b, t, self.num_heads, self.d_k).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
            scores = q.matmul(k.transpose(-2, -1)) / math.sqrt(self.d_k)
            weights = self.softmax(scores)  # wrong
            return self.fc(weights.matmul(v).transpose(1, 2).contiguous().view(b, t, -1))

    torch.manual_seed(42)
    return MultiHeadSelfAttention(16, 4, 5), some_x(2, 7, 16), {"num_heads": 4, "causal": False}


@case("softmax-wrong-axis")
def second_to_last():
    class CausalSelfAttention(nn.Module):
        def __init__(self, n_in, n_embd, n_head):
            super().__init__()
            self.c_attn, self.c_proj = nn.Linear(n_in, 3 * n_embd), nn.Linear(n_embd, n_embd)
            self.n_head = n_head
            self.register_buffer("bias", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=2))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = F.softmax(att, dim=-2)  # wrong
            y = (att @ v).transpose(1, 2).contiguous().view(B, T, -1)
            return self.c_proj(y)

    torch.manual_seed(43)
    return CausalSelfAttention(12, 18, 3), some_x(4, 5, 12), {"num_heads": 3}


@case("softmax-wrong-axis")
def heads_stand_last():
    class Attention(nn.Module):
        def __init__(self, dim, heads, head_dim):
            super().__init__()
            self.heads, self.head_dim = heads, head_dim
            self.qkv = nn.Linear(dim, 3 * heads * head_dim, bias=False)
            self.out = nn.Linear(heads * head_dim, dim)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, self.head_dim)).unbind(2)
            logits = torch.einsum("bqhd,bkhd->bqkh", q * self.head_dim**-0.5, k)
            t = x.shape[1]
            allowed = torch.ones(t, t, device=x.device, dtype=torch.bool).tril().unsqueeze(-1)
            logits = torch.where(allowed, logits, torch.finfo(x.dtype).min)
            weights = logits.softmax(dim=-1)  # wrong
            return self.out(torch.einsum("bqkh,bkhd->bqhd", weights, v).flatten(2))

    torch.manual_seed(44)
    return Attention(14, 5, 3), some_x(2, 6, 14), {"num_heads": 5}


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


@case("softmax-wrong-axis")
def keys_times_queries():
    class Attention(nn.Module):
        def __init__(self, dim, n_heads, n_kv, size):
            super().__init__()
            self.n_heads, self.n_kv, self.size = n_heads, n_kv, size
            self.q_proj = nn.Linear(dim, n_heads * size)
            self.k_proj, self.v_proj = nn.Linear(dim, n_kv * size), nn.Linear(dim, n_kv * size)
            self.o_proj = nn.Linear(n_heads * size, dim)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.q_proj(x).view(b, t, self.n_heads, self.size).transpose(1, 2)
            k = self.k_proj(x).view(b, t, self.n_kv, self.size).transpose(1, 2)
            v = self.v_proj(x).view(b, t, self.n_kv, self.size).transpose(1, 2)
            k, v = (s.repeat_interleave(self.n_heads // self.n_kv, dim=1) for s in (k, v))
            affinity = torch.matmul(k, q.transpose(2, 3)) * self.size**-0.5
            seen = torch.ones(t, t, device=x.device).triu().bool()
            affinity = affinity.masked_fill(~seen, float("-inf"))
            affinity = affinity.softmax(dim=-1)  # wrong
            return self.o_proj(torch.matmul(affinity.transpose(2, 3), v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(46)
    return Attention(20, 6, 2, 4), some_x(3, 7, 20), {"num_heads": 6, "num_kv_heads": 2}


@case("softmax-wrong-axis")
def softmax_without_dim():
    class FoldedAttention(nn.Module):
        def __init__(self, d_model, n_head, d_k):
            super().__init__()
            self.n_head, self.d_k = n_head, d_k
            self.w_qs, self.w_ks, self.w_vs = (nn.Linear(d_model, n_head * d_k, bias=False) for _ in range(3))
            self.fc, self.dropout = nn.Linear(n_head * d_k, d_model), nn.Dropout(0.1)

        def fold(self, t):
            return t.view(*t.shape[:2], self.n_head, self.d_k).transpose(1, 2).flatten(0, 1)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.fold(self.w_qs(x)), self.fold(self.w_ks(x)), self.fold(self.w_vs(x))
            attn = torch.bmm(q, k.transpose(1, 2)) / self.d_k**0.5
            attn = attn.masked_fill(torch.ones(n, n, device=x.device).tril() == 0, -1e9)
            attn = self.dropout(F.softmax(attn))  # wrong
            out = torch.bmm(attn, v).view(b, self.n_head, n, self.d_k).permute(0, 2, 1, 3)
            return self.fc(out.reshape(b, n, -1))

    torch.manual_seed(47)
    return FoldedAttention(13, 3, 9), some_x(2, 4, 13), {"num_heads": 3}


@case("softmax-wrong-axis")
def every_sentence_in_turn():
    torch.manual_seed(48)
    heads, d_in, size = 4, 11, 6
    w_q, w_k, w_v = (torch.randn(heads, d_in, size) / 3 for _ in range(3))
    w_o = torch.randn(heads * size, d_in) / 5

    def attend(x):
        outputs = []
        for sentence in x:
            q, k, v = sentence @ w_q.to(x), sentence @ w_k.to(x), sentence @ w_v.to(x)
            scores = q @ k.transpose(1, 2) / math.sqrt(size)
            later = torch.ones(scores.shape[1:], device=x.device).triu(1).bool()
            weights = scores.masked_fill(later, float("-inf")).softmax(1)  # wrong
            outputs.append(torch.cat(list(weights @ v), dim=-1) @ w_o.to(x))
        return torch.stack(outputs)

    return attend, some_x(3, 5, d_in), {"num_heads": heads}


@case("softmax-wrong-axis")
def exponentials_summed_over_queries():
    class ByHand(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(d_in, d_out) for _ in range(3))

        def forward(self, x):
            q, k, v = self.q(x), self.k(x), self.v(x)
            scores = (q @ k.mT) / q.shape[-1] ** 0.5
            e = torch.exp(scores - scores.amax(dim=(1, 2), keepdim=True)).tril()
            weights = e / e.sum(dim=1, keepdim=True)  # wrong
            return weights @ v

    torch.manual_seed(49)
    return ByHand(8, 5), some_x(4, 7, 8), {"num_heads": 1}


# double-softmax


@case("double-softmax")
def weights_of_an_earlier_cell():
    class CausalAttention(nn.Module):
        def __init__(self, d_in, d_out, dropout=0.1):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
            queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
            attn_scores = queries @ keys.transpose(1, 2)
            attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)  # wrong
            mask = torch.triu(torch.ones_like(attn_scores), diagonal=1)
            masked = attn_weights.masked_fill(mask.bool(), -torch.inf)  # wrong
            attn_weights = torch.softmax(masked, dim=-1)  # wrong
            return self.dropout(attn_weights) @ values

    torch.manual_seed(51)
    return CausalAttention(9, 6), some_x(2, 7, 9), {"num_heads": 1}


@case("double-softmax")
def helper_has_done_it():
    class MultiHeadAttention(nn.Module):
        def __init__(self, hidden, heads, size):
            super().__init__()
            self.heads, self.size = heads, size
            self.q_proj, self.k_proj = nn.Linear(hidden, heads * size), nn.Linear(hidden, heads * size)
            self.v_proj, self.o_proj = nn.Linear(hidden, heads * size), nn.Linear(heads * size, hidden)

        def split_heads(self, t):
            return t.view(t.shape[0], t.shape[1], self.heads, self.size).transpose(1, 2)

        def attention_probs(self, q, k):
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
            n = scores.shape[-1]
            mask = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
            return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)

        def forward(self, x):
            q, k, v = (self.split_heads(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
            attn = self.attention_probs(q, k)
            out = torch.matmul(F.softmax(attn, dim=-1), v)  # wrong
            return self.o_proj(out.transpose(1, 2).flatten(2))

    torch.manual_seed(52)
    return MultiHeadAttention(15, 3, 7), some_x(4, 6, 15), {"num_heads": 3}


@case("double-softmax")
def module_after_function():
    class Attention(nn.Module):
        def __init__(self, dim, heads, dim_head, dropout=0.1):
            super().__init__()
            self.heads, self.scale = heads, dim_head**-0.5
            self.attend = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(dropout))
            self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
            self.to_out = nn.Linear(heads * dim_head, dim)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            dots = q @ k.transpose(-1, -2) * self.scale
            attn = self.attend(dots.softmax(dim=-1))  # wrong
            return self.to_out((attn @ v).transpose(1, 2).reshape(b, n, -1))

    torch.manual_seed(53)
    return Attention(18, 4, 8), some_x(3, 5, 18), {"num_heads": 4, "causal": False}


@case("double-softmax")
def row_by_row():
    torch.manual_seed(54)
    w_query, w_key, w_value = (torch.randn(12, 8) / 3 for _ in range(3))

    def self_attention(inputs):
        queries, keys, values = inputs @ w_query.to(inputs), inputs @ w_key.to(inputs), inputs @ w_value.to(inputs)
        contexts = []
        for i in range(inputs.shape[1]):
            scores = (keys[:, : i + 1] @ queries[:, i].unsqueeze(-1)).squeeze(-1)
            weights = torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1)
            alpha = torch.softmax(weights, dim=-1)  # wrong
            contexts.append((alpha.unsqueeze(1) @ values[:, : i + 1]).squeeze(1))
        return torch.stack(contexts, dim=1)

    return self_attention, some_x(3, 6, 12), {"num_heads": 1}


@case("double-softmax")
def by_hand_and_again():
    class GroupedQuery(nn.Module):
        def __init__(self, d, heads, kv_heads, size):
            super().__init__()
            self.heads, self.kv_heads, self.size = heads, kv_heads, size
            self.wq = nn.Linear(d, heads * size, bias=False)
            self.wk = nn.Linear(d, kv_heads * size, bias=False)
            self.wv = nn.Linear(d, kv_heads * size, bias=False)
            self.wo = nn.Linear(heads * size, d, bias=False)

        def forward(self, x):
            q = self.wq(x).unflatten(-1, (self.kv_heads, -1, self.size))
            k, v = self.wk(x).unflatten(-1, (self.kv_heads, -1)), self.wv(x).unflatten(-1, (self.kv_heads, -1))
            s = torch.einsum("bigrd,bjgd->bgrij", q, k) / math.sqrt(self.size)
            hidden = torch.ones(s.shape[-2:], device=x.device).triu(1).bool()
            s = s.masked_fill(hidden, -torch.inf)
            p = (s - s.amax(-1, keepdim=True)).exp()
            p = p / p.sum(-1, keepdim=True)
            p = p.masked_fill(hidden, -torch.inf).softmax(-1)  # wrong
            return self.wo(torch.einsum("bgrij,bjgd->bigrd", p, v).flatten(2))

    torch.manual_seed(55)
    return GroupedQuery(11, 6, 2, 4), some_x(3, 5, 11), {"num_heads": 6, "num_kv_heads": 2}


@case("double-softmax")
def head_normalises_twice():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size, block_size=32):
            super().__init__()
            self.key = nn.Linear(n_embd, head_size, bias=False)
            self.query = nn.Linear(n_embd, head_size, bias=False)
            self.value = nn.Linear(n_embd, head_size, bias=False)
            self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

        def forward(self, x):
            T = x.shape[1]
            k, q = self.key(x), self.query(x)
            wei = F.softmax(q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5, dim=-1)  # wrong
            wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))  # wrong
            wei = F.softmax(wei, dim=-1)  # wrong
            return wei @ self.value(x)

    class MultiHead(nn.Module):
        def __init__(self, n_embd, head_size, num_heads):
            super().__init__()
            self.heads = nn.ModuleList([Head(n_embd, head_size) for _ in range(num_heads)])
            self.proj = nn.Linear(head_size * num_heads, n_embd)

        def forward(self, x):
            return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))

    torch.manual_seed(56)
    return MultiHead(14, 9, 2), some_x(4, 8, 14), {"num_heads": 2}


@case("double-softmax")
def bmm_with_additive_mask():
    class SelfAttn(nn.Module):
        def __init__(self, embed_dim, num_heads, head_dim):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, head_dim
            self.in_proj_weight = nn.Parameter(torch.randn(3 * num_heads * head_dim, embed_dim) * 0.2)
            self.out_proj = nn.Linear(num_heads * head_dim, embed_dim)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = F.linear(x, self.in_proj_weight).chunk(3, dim=-1)
            q, k, v = (
                s.view(b, t, self.num_heads, -1).transpose(1, 2).reshape(b * self.num_heads, t, -1) for s in (q, k, v)
            )
            mask = torch.full((t, t), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            attn = torch.bmm(q * self.head_dim**-0.5, k.transpose(1, 2)) + mask
            attn = torch.softmax(attn, dim=-1)
            attn = nn.functional.softmax(attn + mask, dim=-1)  # wrong
            out = torch.bmm(attn, v).view(b, self.num_heads, t, -1).transpose(1, 2).reshape(b, t, -1)
            return self.out_proj(out)

    torch.manual_seed(57)
    return SelfAttn(10, 5, 3), some_x(2, 6, 10), {"num_heads": 5}


# no-softmax


@case("no-softmax")
def scores_straight_to_values():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, d_out // num_heads
            self.W_query, self.W_key = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)
            self.W_value, self.out_proj = nn.Linear(d_in, d_out), nn.Linear(d_out, d_out)

        def forward(self, x):
            b, t, _ = x.shape
            queries = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            keys = self.W_key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            values = self.W_value(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            attn_scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
            mask = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), diagonal=1)
            attn_scores = attn_scores.masked_fill(mask, 0.0)  # wrong
            context = (attn_scores @ values).transpose(1, 2).reshape(b, t, -1)  # wrong
            return self.out_proj(context)

    torch.manual_seed(61)
    return MultiHeadAttention(12, 20, 4), some_x(3, 6, 12), {"num_heads": 4}


@case("no-softmax")
def grouped_einsum():
    class GQA(nn.Module):
        def __init__(self, embed_dim, query_heads, kv_heads, size):
            super().__init__()
            self.query_heads, self.kv_heads, self.size = query_heads, kv_heads, size
            self.q_proj = nn.Linear(embed_dim, query_heads * size)
            self.k_proj = nn.Linear(embed_dim, kv_heads * size)
            self.v_proj = nn.Linear(embed_dim, kv_heads * size)
            self.out_proj = nn.Linear(query_heads * size, embed_dim)

        def forward(self, x):
            q = self.q_proj(x).unflatten(-1, (self.kv_heads, self.query_heads // self.kv_heads, self.size))
            k = self.k_proj(x).unflatten(-1, (self.kv_heads, self.size))
            v = self.v_proj(x).unflatten(-1, (self.kv_heads, self.size))
            similarity = torch.einsum("bngrd,bmgd->bgrnm", q, k) / self.size**0.5
            out = torch.einsum("bgrnm,bmgd->bngrd", similarity, v)  # wrong
            return self.out_proj(out.flatten(2))

    torch.manual_seed(62)
    return GQA(17, 6, 3, 4), some_x(2, 5, 17), {"num_heads": 6, "num_kv_heads": 3, "causal": False}


@case("no-softmax")
def lower_triangle_in_a_head():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size):
            super().__init__()
            self.key = nn.Linear(n_embd, head_size, bias=False)
            self.query = nn.Linear(n_embd, head_size, bias=False)
            self.value = nn.Linear(n_embd, head_size, bias=False)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            k, q, v = self.key(x), self.query(x), self.value(x)
            wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            wei = self.dropout(torch.tril(wei))  # wrong
            return wei @ v  # wrong

    class Heads(nn.Module):
        def __init__(self, n_embd, num_heads, head_size):
            super().__init__()
            self.heads = nn.ModuleList([Head(n_embd, head_size) for _ in range(num_heads)])
            self.proj = nn.Linear(num_heads * head_size, n_embd)

        def forward(self, x):
            return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))

    torch.manual_seed(63)
    return Heads(16, 3, 8), some_x(4, 7, 16), {"num_heads": 3}


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


@case("no-softmax")
def unnormalised_loop():
    torch.manual_seed(65)
    d_in, d_head = 13, 7
    w_q, w_k, w_v = (torch.randn(d_in, d_head) / 4 for _ in range(3))

    def attention(x):
        q, k, v = x @ w_q.to(x), x @ w_k.to(x), x @ w_v.to(x)
        y = torch.zeros_like(v)
        for i in range(x.shape[1]):
            for j in range(i + 1):
                score = (q[:, i] * k[:, j]).sum(dim=-1, keepdim=True) * d_head**-0.5
                y[:, i] += score * v[:, j]  # wrong
        return y

    return attention, some_x(3, 5, d_in), {"num_heads": 1}


@case("no-softmax")
def mask_and_mix():
    class CausalSelfAttention(nn.Module):
        def __init__(self, d, n_embd, n_head, dropout=0.1):
            super().__init__()
            self.n_head, self.attn_dropout = n_head, nn.Dropout(dropout)
            self.c_attn, self.c_proj = nn.Linear(d, 3 * n_embd), nn.Linear(n_embd, d)
            self.register_buffer("keep", torch.tril(torch.ones(64, 64)))

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = (
                s.view(B, T, self.n_head, -1).transpose(1, 2).flatten(0, 1) for s in self.c_attn(x).chunk(3, dim=-1)
            )
            att = torch.bmm(q, k.transpose(1, 2)).div(q.size(-1) ** 0.5)
            att = self.attn_dropout(att.mul(self.keep[:T, :T]))  # wrong
            y = torch.bmm(att, v)  # wrong
            return self.c_proj(y.view(B, self.n_head, T, -1).transpose(1, 2).reshape(B, T, -1))

    torch.manual_seed(66)
    return CausalSelfAttention(11, 15, 5), some_x(2, 8, 11), {"num_heads": 5}


@case("no-softmax")
def line_lost_after_the_mask():
    class Attention(nn.Module):
        def __init__(self, dim, heads, head_dim):
            super().__init__()
            self.heads, self.head_dim = heads, head_dim
            self.query = nn.Linear(dim, heads * head_dim)
            self.key = nn.Linear(dim, heads * head_dim)
            self.value = nn.Linear(dim, heads * head_dim)
            self.dense = nn.Linear(heads * head_dim, dim)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.query(x).view(b, t, self.heads, self.head_dim).permute(0, 2, 1, 3)
            k = self.key(x).view(b, t, self.heads, self.head_dim).permute(0, 2, 3, 1)
            v = self.value(x).view(b, t, self.heads, self.head_dim).permute(0, 2, 1, 3)
            attn = (q @ k) / math.sqrt(self.head_dim)
            attn = attn.masked_fill(torch.ones(t, t, device=x.device).tril() == 0, -1e9)  # wrong
            return self.dense((attn @ v).transpose(1, 2).flatten(2))  # wrong

    torch.manual_seed(67)
    return Attention(10, 2, 9), some_x(3, 6, 10), {"num_heads": 2}


# dropout-before-softmax


@case("dropout-before-softmax")
def dropout_after_the_product():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, dropout=0.1, context_length=32):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.out_proj, self.dropout = nn.Linear(d_out, d_out), nn.Dropout(dropout)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (
                w(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
                for w in (self.W_query, self.W_key, self.W_value)
            )
            attn_scores = self.dropout(q @ k.transpose(2, 3))  # wrong
            attn_scores.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)
            attn_weights = torch.softmax(attn_scores / self.head_dim**0.5, dim=-1)
            return self.out_proj((attn_weights @ v).transpose(1, 2).reshape(b, n, -1))

    torch.manual_seed(71)
    return MultiHeadAttention(11, 18, 3), some_x(2, 7, 11), {"num_heads": 3}


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
def regularised_logits_in_each_head():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size, dropout):
            super().__init__()
            self.key = nn.Linear(n_embd, head_size, bias=False)
            self.query = nn.Linear(n_embd, head_size, bias=False)
            self.value = nn.Linear(n_embd, head_size, bias=False)
            self.dropout = nn.Dropout(dropout)
            self.register_buffer("tril", torch.tril(torch.ones(64, 64)))

        def forward(self, x):
            T = x.shape[1]
            k, q, v = self.key(x), self.query(x), self.value(x)
            wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            wei = self.dropout(wei)  # wrong
            wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
            return F.softmax(wei, dim=-1) @ v

    class MultiHead(nn.Module):
        def __init__(self, n_embd, head_size, n_head, dropout=0.1):
            super().__init__()
            self.heads = nn.ModuleList([Head(n_embd, head_size, dropout) for _ in range(n_head)])
            self.proj = nn.Linear(head_size * n_head, n_embd)

        def forward(self, x):
            return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))

    torch.manual_seed(73)
    return MultiHead(9, 4, 3), some_x(2, 8, 9), {"num_heads": 3}


@case("dropout-before-softmax")
def encoder_probs():
    class BertSelfAttention(nn.Module):
        def __init__(self, hidden_size, heads, head_size, attention_probs_dropout_prob=0.1):
            super().__init__()
            self.heads, self.head_size = heads, head_size
            self.query = nn.Linear(hidden_size, heads * head_size)
            self.key = nn.Linear(hidden_size, heads * head_size)
            self.value = nn.Linear(hidden_size, heads * head_size)
            self.dense = nn.Linear(heads * head_size, hidden_size)
            self.dropout = nn.Dropout(attention_probs_dropout_prob)

        def transpose_for_scores(self, x):
            return x.view(*x.shape[:2], self.heads, self.head_size).permute(0, 2, 1, 3)

        def forward(self, hidden_states):
            query_layer = self.transpose_for_scores(self.query(hidden_states))
            key_layer = self.transpose_for_scores(self.key(hidden_states))
            value_layer = self.transpose_for_scores(self.value(hidden_states))
            attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2)) / math.sqrt(self.head_size)
            attention_probs = nn.Softmax(dim=-1)(self.dropout(attention_scores))  # wrong
            context_layer = torch.matmul(attention_probs, value_layer).permute(0, 2, 1, 3).flatten(2)
            return self.dense(context_layer)

    torch.manual_seed(74)
    return BertSelfAttention(22, 2, 8), some_x(3, 5, 22), {"num_heads": 2, "causal": False}


@case("dropout-before-softmax")
def sequence_of_steps():
    class Attention(nn.Module):
        def __init__(self, dim, heads, kv_heads, size, dropout=0.1):
            super().__init__()
            self.heads, self.kv_heads, self.size = heads, kv_heads, size
            self.to_q = nn.Linear(dim, heads * size, bias=False)
            self.to_kv = nn.Linear(dim, 2 * kv_heads * size, bias=False)
            self.attend = nn.Sequential(nn.Dropout(dropout), nn.Softmax(dim=-1))  # wrong
            self.to_out = nn.Linear(heads * size, dim)

        def forward(self, x):
            q = self.to_q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            k, v = (t.unflatten(-1, (self.kv_heads, -1)).transpose(1, 2) for t in self.to_kv(x).chunk(2, dim=-1))
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
            sim = torch.einsum("bhid,bhjd->bhij", q * self.size**-0.5, k)
            i = torch.arange(x.shape[1], device=x.device)
            sim = sim.masked_fill(i[:, None] < i, -1e9)
            attn = self.attend(sim)  # wrong
            return self.to_out(torch.einsum("bhij,bhjd->bihd", attn, v).flatten(2))

    torch.manual_seed(75)
    return Attention(13, 4, 2, 7), some_x(3, 6, 13), {"num_heads": 4, "num_kv_heads": 2}


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
def half_and_folded():
    class FoldedHeads(nn.Module):
        def __init__(self, d_model, n, d_k, std):
            super().__init__()
            self.n, self.d_k = n, d_k
            self.wq, self.wk, self.wv = (nn.Linear(d_model, n * d_k, bias=False) for _ in range(3))
            self.wo = nn.Linear(n * d_k, d_model)
            nn.init.normal_(self.wq.weight, std=std)
            nn.init.normal_(self.wk.weight, std=std)

        def fold(self, t):
            return t.unflatten(-1, (self.n, self.d_k)).transpose(1, 2).flatten(0, 1)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.fold(self.wq(x)), self.fold(self.wk(x)), self.fold(self.wv(x))
            energy = torch.bmm(q, k.transpose(1, 2))  # wrong
            energy = energy / self.d_k**0.5  # wrong
            energy = energy + torch.full_like(energy, float("-inf")).triu(1)
            context = torch.bmm(torch.softmax(energy, dim=-1), v)
            return self.wo(context.view(b, self.n, t, -1).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(84)
    module, x = FoldedHeads(10, 3, 8, 5.0), some_x(4, 6, 10, spread=8.0)
    return module.half(), x.half(), {"num_heads": 3}


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


@case("overflow-half")
def half_grouped_heads():
    class GroupedQueryAttention(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads, head_dim):
            super().__init__()
            self.head_dim, self.n_rep = head_dim, n_heads // n_kv_heads
            self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
            self.wk = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wv = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wo = nn.Linear(n_heads * head_dim, dim, bias=False)

        def forward(self, x):
            bsz, seqlen, _ = x.shape
            xq, xk, xv = (w(x).view(bsz, seqlen, -1, self.head_dim) for w in (self.wq, self.wk, self.wv))
            xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
            xk, xv = xk.repeat_interleave(self.n_rep, 1), xv.repeat_interleave(self.n_rep, 1)
            scores = torch.matmul(xq, xk.transpose(2, 3)) / math.sqrt(self.head_dim)  # wrong
            keep = torch.ones(seqlen, seqlen, device=x.device).tril().bool()
            scores = torch.where(keep, scores, torch.finfo(scores.dtype).min)
            scores = F.softmax(scores.float(), dim=-1).type_as(xq)
            return self.wo(torch.matmul(scores, xv).transpose(1, 2).reshape(bsz, seqlen, -1))

    torch.manual_seed(86)
    module, x = GroupedQueryAttention(16, 6, 2, 9), some_x(3, 5, 16, spread=190.0)
    return module.half(), x.half(), {"num_heads": 6, "num_kv_heads": 2}


@case("overflow-half")
def half_encoder_loop():
    class Encoder(nn.Module):
        def __init__(self, d_in, heads, width):
            super().__init__()
            self.queries = nn.ModuleList(nn.Linear(d_in, width) for _ in range(heads))
            self.keys = nn.ModuleList(nn.Linear(d_in, width) for _ in range(heads))
            self.values = nn.ModuleList(nn.Linear(d_in, width) for _ in range(heads))
            self.join = nn.Linear(heads * width, d_in)
            self.scale = 1 / math.sqrt(width)

        def forward(self, x):
            contexts = []
            for to_q, to_k, to_v in zip(self.queries, self.keys, self.values, strict=True):
                scores = to_q(x).matmul(to_k(x).transpose(1, 2))  # wrong
                weights = scores.mul(self.scale).softmax(dim=-1)  # wrong
                contexts.append(weights.matmul(to_v(x)))
            return self.join(torch.cat(contexts, dim=-1))

    torch.manual_seed(87)
    module, x = Encoder(11, 2, 7).to(torch.float16), some_x(3, 8, 11, spread=150.0)
    return module, x.half(), {"num_heads": 2, "causal": False}


# scales after norms of queries and keys


def rms(t, gain):
    return t * torch.rsqrt(t.square().mean(-1, keepdim=True) + 1e-6) * gain


class NormedHeads(nn.Module):
    def __init__(self, d_in, heads, head_dim):
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.w = nn.Linear(d_in, 3 * heads * head_dim, bias=False)
        self.gain_q, self.gain_k = nn.Parameter(torch.rand(head_dim) + 0.5), nn.Parameter(torch.rand(head_dim) + 0.5)
        self.mix = nn.Linear(heads * head_dim, d_in)

    def parts(self, x):
        q, k, v = self.w(x).unflatten(-1, (3, self.heads, self.head_dim)).permute(2, 0, 3, 1, 4)
        return rms(q, self.gain_q), rms(k, self.gain_k), v

    def close(self, scores, v):
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return self.mix((scores.masked_fill(future, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2))


@case("missing-scale")
def normed_by_hand_and_never_scaled():
    class Attention(NormedHeads):
        def forward(self, x):
            q, k, v = self.parts(x)
            return self.close(torch.einsum("bhqc,bhkc->bhqk", q, k), v)  # wrong

    torch.manual_seed(92)
    return Attention(11, 3, 5), some_x(2, 6, 11), {"num_heads": 3}


@case("wrong-scale")
def normed_and_scaled_twice():
    class Attention(NormedHeads):
        def forward(self, x):
            q, k, v = self.parts(x)
            q = q / self.head_dim**0.5
            scores = q @ k.mT
            scores = scores * self.head_dim**-0.5  # wrong
            return self.close(scores, v)

    torch.manual_seed(93)
    return Attention(11, 3, 5), some_x(2, 6, 11), {"num_heads": 3}


@case("missing-scale")
def layer_norms_of_heads_and_a_kernel_without_scale():
    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
            self.norm_q, self.norm_k = nn.LayerNorm(width // heads), nn.LayerNorm(width // heads)
            self.o = nn.Linear(width, width)

        def forward(self, x):
            q, k, v = (one(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
            q, k = self.norm_q(q), self.norm_k(k)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)  # wrong
            return self.o(out.transpose(1, 2).flatten(2))

    torch.manual_seed(94)
    return Attention(12, 2), some_x(2, 5, 12), {"num_heads": 2}
