"""Mistakes with the heads: how they are cut, joined, told apart and how they share keys and values."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


# --- split-without-transpose ---


@case("split-without-transpose")
def helper_for_all_three():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, n_heads):
            super().__init__()
            self.n_heads, self.d_k = n_heads, d_out // n_heads
            self.W_q = nn.Linear(d_in, d_out)
            self.W_k = nn.Linear(d_in, d_out)
            self.W_v = nn.Linear(d_in, d_out)
            self.W_o = nn.Linear(d_out, d_out)

        def split_heads(self, t):
            return t.view(t.size(0), self.n_heads, t.size(1), self.d_k)  # wrong

        def combine_heads(self, t):
            return t.transpose(1, 2).contiguous().view(t.size(0), -1, self.n_heads * self.d_k)

        def forward(self, x):
            q, k, v = self.split_heads(self.W_q(x)), self.split_heads(self.W_k(x)), self.split_heads(self.W_v(x))
            scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
            mask = torch.tril(torch.ones(x.size(1), x.size(1), device=x.device))
            scores = scores.masked_fill(mask == 0, float("-inf"))
            return self.W_o(self.combine_heads(torch.matmul(torch.softmax(scores, dim=-1), v)))

    torch.manual_seed(1)
    return MultiHeadAttention(13, 20, 4), some_x(2, 6, 13), {"num_heads": 4}


@case("split-without-transpose")
def packed_and_fused():
    class CausalSelfAttention(nn.Module):
        def __init__(self, n_in, n_embd, n_head):
            super().__init__()
            self.c_attn = nn.Linear(n_in, 3 * n_embd)
            self.c_proj = nn.Linear(n_embd, n_embd)
            self.n_head, self.n_embd = n_head, n_embd

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
            k = k.reshape(B, self.n_head, T, self.n_embd // self.n_head)  # wrong
            q = q.reshape(B, self.n_head, T, self.n_embd // self.n_head)  # wrong
            v = v.reshape(B, self.n_head, T, self.n_embd // self.n_head)  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, self.n_embd))

    torch.manual_seed(2)
    return CausalSelfAttention(11, 21, 3), some_x(2, 5, 11, seed=1), {"num_heads": 3}


@case("split-without-transpose")
def heads_in_the_batch():
    class Attention(nn.Module):
        def __init__(self, dim, inner, heads, dropout=0.1):
            super().__init__()
            self.heads, self.scale = heads, (inner // heads) ** -0.5
            self.to_q, self.to_k, self.to_v = (nn.Linear(dim, inner, bias=False) for _ in range(3))
            self.to_out = nn.Sequential(nn.Linear(inner, dim), nn.Dropout(dropout))

        def fold(self, t):
            b, n, inner = t.shape
            return t.reshape(b * self.heads, n, inner // self.heads)  # wrong

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.fold(self.to_q(x)), self.fold(self.to_k(x)), self.fold(self.to_v(x))
            sim = torch.bmm(q, k.transpose(1, 2)) * self.scale
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            attn = sim.masked_fill(future, -torch.finfo(sim.dtype).max).softmax(dim=-1)
            out = torch.bmm(attn, v).view(b, self.heads, n, -1).transpose(1, 2).reshape(b, n, -1)
            return self.to_out(out)

    torch.manual_seed(3)
    return Attention(10, 35, 5), some_x(2, 6, 10, seed=2), {"num_heads": 5}


@case("split-without-transpose")
def three_in_each_head():
    class MultiheadAttention(nn.Module):
        def __init__(self, input_dim, embed_dim, num_heads):
            super().__init__()
            self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
            self.qkv_proj = nn.Linear(input_dim, 3 * embed_dim)
            self.o_proj = nn.Linear(embed_dim, embed_dim)

        def forward(self, x):
            batch_size, seq_length, _ = x.size()
            qkv = self.qkv_proj(x)
            qkv = qkv.reshape(batch_size, self.num_heads, seq_length, 3 * self.head_dim)  # wrong
            q, k, v = qkv.chunk(3, dim=-1)
            attn_logits = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            causal = torch.full((seq_length, seq_length), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            attention = F.softmax(attn_logits + causal, dim=-1)
            values = (attention @ v).permute(0, 2, 1, 3).reshape(batch_size, seq_length, self.embed_dim)
            return self.o_proj(values)

    torch.manual_seed(4)
    return MultiheadAttention(9, 24, 4), some_x(3, 5, 9, seed=3), {"num_heads": 4}


@case("split-without-transpose")
def values_alone():
    class SelfAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, context_length=32):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, d_out // num_heads
            self.query, self.key, self.value = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
            self.out_proj = nn.Linear(d_out, d_out)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1).bool())

        def forward(self, x):
            b, t, _ = x.shape
            queries = self.query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            keys = self.key(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            values = self.value(x).view(b, self.num_heads, t, self.head_dim)  # wrong
            scores = queries @ keys.transpose(2, 3)
            scores.masked_fill_(self.mask[:t, :t], -torch.inf)
            weights = torch.softmax(scores / self.head_dim**0.5, dim=-1)
            return self.out_proj((weights @ values).transpose(1, 2).flatten(2))

    torch.manual_seed(5)
    return SelfAttention(8, 18, 2), some_x(4, 6, 8, seed=4), {"num_heads": 2}


@case("split-without-transpose")
def closure_over_matrices():
    generator = torch.Generator().manual_seed(6)
    wq, wk, wv, wo = (torch.randn(rows, 14, generator=generator) / rows**0.5 for rows in (19, 19, 19, 14))
    h = 2

    def attention(x):
        b, t, _ = x.shape
        Q, K, V = (torch.reshape(x @ w.to(x), (b, h, t, 7)) for w in (wq, wk, wv))  # wrong
        S = torch.einsum("bhid,bhjd->bhij", Q, K) / 7**0.5
        i, j = torch.arange(t, device=x.device)[:, None], torch.arange(t, device=x.device)
        A = torch.where(j <= i, S, -torch.inf).softmax(-1)
        return torch.einsum("bhij,bhjd->bihd", A, V).reshape(b, t, h * 7) @ wo.to(x)

    return attention, some_x(3, 5, 19, seed=5), {"num_heads": 2}


@case("split-without-transpose")
def encoder_that_sees_all():
    class EncoderAttention(nn.Module):
        def __init__(self, hidden, width, heads):
            super().__init__()
            self.heads = heads
            self.q_lin, self.k_lin, self.v_lin = (nn.Linear(hidden, width) for _ in range(3))
            self.out_lin = nn.Linear(width, hidden)

        def forward(self, x):
            bs, length, _ = x.shape

            def shape(states):
                return states.view(bs, self.heads, length, -1)  # wrong

            def unshape(states):
                return states.transpose(1, 2).contiguous().view(bs, length, -1)

            q, k, v = shape(self.q_lin(x)), shape(self.k_lin(x)), shape(self.v_lin(x))
            q = q / math.sqrt(q.size(-1))
            weights = F.softmax(torch.matmul(q, k.transpose(2, 3)), dim=-1)
            return self.out_lin(unshape(torch.matmul(weights, v)))

    torch.manual_seed(7)
    return EncoderAttention(17, 30, 6), some_x(2, 8, 17, seed=6), {"num_heads": 6, "causal": False}


# --- merge-without-transpose ---


@case("merge-without-transpose")
def reshape_at_the_end():
    class MHA(nn.Module):
        def __init__(self, d_in, d_out, num_heads):
            super().__init__()
            self.num_heads, self.d_out, self.head_dim = num_heads, d_out, d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.out_proj = nn.Linear(d_out, d_out)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            b, num_tokens, _ = x.shape
            keys = self.W_key(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            values = self.W_value(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            attn_scores = queries @ keys.transpose(2, 3)
            mask = torch.triu(torch.ones(num_tokens, num_tokens, device=x.device), diagonal=1).bool()
            attn_scores = attn_scores.masked_fill(mask, -torch.inf)
            attn_weights = self.dropout(torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1))
            context_vec = attn_weights @ values
            context_vec = context_vec.contiguous().view(b, num_tokens, self.d_out)  # wrong
            return self.out_proj(context_vec)

    torch.manual_seed(11)
    return MHA(12, 15, 3), some_x(2, 7, 12, seed=11), {"num_heads": 3}


@case("merge-without-transpose")
def fused_then_reshape():
    class Block(nn.Module):
        def __init__(self, width, inner, n_head):
            super().__init__()
            self.n_head = n_head
            self.qkv = nn.Linear(width, 3 * inner, bias=False)
            self.proj = nn.Linear(inner, width, bias=False)

        def forward(self, x):
            B, N, _ = x.shape
            q, k, v = self.qkv(x).reshape(B, N, 3, self.n_head, -1).permute(2, 0, 3, 1, 4).unbind(0)
            x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x.reshape(B, N, -1)  # wrong
            return self.proj(x)

    torch.manual_seed(12)
    return Block(10, 32, 4), some_x(3, 6, 10, seed=12), {"num_heads": 4}


@case("merge-without-transpose")
def unfolded_from_the_batch():
    class BmmAttention(nn.Module):
        def __init__(self, in_dim, embed_dim, heads):
            super().__init__()
            self.heads, self.hd = heads, embed_dim // heads
            self.linear_q = nn.Linear(in_dim, embed_dim)
            self.linear_k = nn.Linear(in_dim, embed_dim)
            self.linear_v = nn.Linear(in_dim, embed_dim)
            self.linear_out = nn.Linear(embed_dim, embed_dim)

        def _shape(self, tensor, bsz, seq):
            tensor = tensor.view(bsz, seq, self.heads, self.hd).transpose(1, 2).contiguous()
            return tensor.view(bsz * self.heads, seq, self.hd)

        def forward(self, hidden):
            bsz, seq, _ = hidden.size()
            q = self._shape(self.linear_q(hidden) * self.hd**-0.5, bsz, seq)
            k = self._shape(self.linear_k(hidden), bsz, seq)
            v = self._shape(self.linear_v(hidden), bsz, seq)
            attn_mask = torch.full((seq, seq), torch.finfo(hidden.dtype).min, dtype=hidden.dtype, device=hidden.device)
            probs = F.softmax(torch.bmm(q, k.transpose(1, 2)) + attn_mask.triu(1), dim=-1)
            attn_output = torch.bmm(probs, v)
            attn_output = attn_output.view(bsz, seq, self.heads * self.hd)  # wrong
            return self.linear_out(attn_output)

    torch.manual_seed(13)
    return BmmAttention(14, 35, 5), some_x(2, 4, 14, seed=13), {"num_heads": 5}


@case("merge-without-transpose")
def stacked_loop():
    class LoopedHeads(nn.Module):
        def __init__(self, c_in, c_out, n):
            super().__init__()
            self.n = n
            self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(n, c_in, c_out // n) / c_in**0.5) for _ in range(3))
            self.wo = nn.Parameter(torch.randn(c_out, c_out) / c_out**0.5)

        def forward(self, x):
            b, t, _ = x.shape
            keep = torch.ones(t, t, device=x.device, dtype=torch.bool).tril()
            outs = []
            for i in range(self.n):
                q, k, v = x @ self.wq[i], x @ self.wk[i], x @ self.wv[i]
                s = (q @ k.mT) * q.shape[-1] ** -0.5
                outs.append(s.masked_fill(~keep, float("-inf")).softmax(-1) @ v)
            joined = torch.stack(outs, dim=1).reshape(b, t, -1)  # wrong
            return joined @ self.wo

    torch.manual_seed(14)
    return LoopedHeads(21, 12, 2), some_x(3, 5, 21, seed=14), {"num_heads": 2}


@case("merge-without-transpose")
def einsum_with_heads_first():
    class EinsumAttention(nn.Module):
        def __init__(self, d_model, n_heads, d_head):
            super().__init__()
            self.W_Q = nn.Parameter(torch.randn(n_heads, d_model, d_head) * d_model**-0.5)
            self.W_K = nn.Parameter(torch.randn(n_heads, d_model, d_head) * d_model**-0.5)
            self.W_V = nn.Parameter(torch.randn(n_heads, d_model, d_head) * d_model**-0.5)
            self.W_O = nn.Linear(n_heads * d_head, d_model)
            self.b_Q = nn.Parameter(0.1 * torch.randn(n_heads, d_head))
            self.d_head = d_head

        def forward(self, resid):
            q = torch.einsum("bpm,hmd->bphd", resid, self.W_Q) + self.b_Q
            k = torch.einsum("bpm,hmd->bphd", resid, self.W_K)
            v = torch.einsum("bpm,hmd->bphd", resid, self.W_V)
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.d_head)
            hide = torch.ones(resid.shape[1], resid.shape[1], device=resid.device).triu(1) == 1
            pattern = scores.masked_fill(hide, -1e9).softmax(-1)
            z = torch.einsum("bhqk,bkhd->bhqd", pattern, v)  # wrong
            return self.W_O(z.reshape(resid.shape[0], resid.shape[1], -1))  # wrong

    torch.manual_seed(15)
    return EinsumAttention(16, 3, 8), some_x(2, 6, 16, seed=15), {"num_heads": 3}


@case("merge-without-transpose")
def grouped_without_a_line():
    class GroupedAttention(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads, head_dim):
            super().__init__()
            self.n_rep = n_heads // n_kv_heads
            self.head_dim = head_dim
            self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
            self.wk = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wv = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wo = nn.Linear(n_heads * head_dim, dim, bias=False)

        def forward(self, x):
            bsz, seqlen, _ = x.shape
            xq, xk, xv = (w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
            xk = xk.repeat_interleave(self.n_rep, dim=1)
            xv = xv.repeat_interleave(self.n_rep, dim=1)
            mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device).triu(1).type_as(x)
            scores = F.softmax(xq @ xk.transpose(2, 3) / math.sqrt(self.head_dim) + mask, dim=-1)
            output = torch.matmul(scores, xv)
            output = output.contiguous().view(bsz, seqlen, -1)  # wrong
            return self.wo(output)

    torch.manual_seed(16)
    return GroupedAttention(15, 6, 2, 4), some_x(3, 5, 15, seed=16), {"num_heads": 6, "num_kv_heads": 2}


# --- heads-share-scores ---


@case("heads-share-scores")
def einsum_without_a_letter():
    class SelfAttention(nn.Module):
        def __init__(self, emb, width, heads):
            super().__init__()
            self.heads, self.hd = heads, width // heads
            self.tokeys, self.toqueries, self.tovalues = (nn.Linear(emb, width, bias=False) for _ in range(3))
            self.unifyheads = nn.Linear(width, width)

        def forward(self, x):
            b, t, _ = x.size()
            keys = self.tokeys(x).view(b, t, self.heads, self.hd)
            queries = self.toqueries(x).view(b, t, self.heads, self.hd)
            values = self.tovalues(x).view(b, t, self.heads, self.hd)
            dot = torch.einsum("bqhd,bkhd->bqk", queries, keys) / math.sqrt(self.hd)  # wrong
            dot = dot.masked_fill(torch.ones(t, t, device=x.device).triu(1).bool(), float("-inf"))
            out = torch.einsum("bqk,bkhd->bqhd", F.softmax(dot, dim=-1), values)
            return self.unifyheads(out.reshape(b, t, -1))

    torch.manual_seed(21)
    return SelfAttention(18, 20, 4), some_x(2, 6, 18, seed=21), {"num_heads": 4}


@case("heads-share-scores")
def full_width_scores():
    class MultiHead(nn.Module):
        def __init__(self, d_in, d_out, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, d_out // num_heads
            self.w_q, self.w_k, self.w_v = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)
            self.w_o = nn.Linear(d_out, d_out)

        def forward(self, x):
            b, t, _ = x.shape
            scores = self.w_q(x) @ self.w_k(x).transpose(1, 2) * self.head_dim**-0.5  # wrong
            scores = scores.masked_fill(~torch.ones(t, t, dtype=torch.bool, device=x.device).tril(), -torch.inf)
            weights = scores.softmax(dim=-1).unsqueeze(1)
            values = self.w_v(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            return self.w_o((weights @ values).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(22)
    return MultiHead(13, 21, 3), some_x(2, 6, 13, seed=22), {"num_heads": 3}


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


@case("heads-share-scores")
def first_head_decides():
    class HeadLoop(nn.Module):
        def __init__(self, dim_in, dim, n_heads):
            super().__init__()
            self.n_heads, self.dk = n_heads, dim // n_heads
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim_in, dim, bias=False) for _ in range(3))
            self.o_proj = nn.Linear(dim, dim, bias=False)

        def forward(self, x):
            q, k, v = (p(x).split(self.dk, dim=-1) for p in (self.q_proj, self.k_proj, self.v_proj))
            t = x.shape[1]
            later = torch.arange(t, device=x.device)[None, :] > torch.arange(t, device=x.device)[:, None]
            heads = []
            for i in range(self.n_heads):
                logits = torch.bmm(q[0], k[0].transpose(1, 2)) / math.sqrt(self.dk)  # wrong
                attn = torch.softmax(logits.masked_fill(later, float("-inf")), dim=-1)
                heads.append(torch.bmm(attn, v[i]))
            return self.o_proj(torch.cat(heads, dim=-1))

    torch.manual_seed(24)
    return HeadLoop(9, 12, 2), some_x(4, 5, 9, seed=24), {"num_heads": 2}


@case("heads-share-scores")
def summed_and_broadcast():
    class Attention(nn.Module):
        def __init__(self, d_model, heads, dim_head):
            super().__init__()
            shape = (heads, d_model, dim_head)
            self.wq, self.wk, self.wv = (nn.Parameter(torch.empty(shape).normal_(0, d_model**-0.5)) for _ in range(3))
            self.wo = nn.Parameter(torch.empty(heads, dim_head, d_model).normal_(0, 0.2))

        def forward(self, x):
            x_ = x.unsqueeze(1)
            q, k, v = x_ @ self.wq, x_ @ self.wk, x_ @ self.wv
            q = q * q.shape[-1] ** -0.5
            sim = (q @ k.mT).sum(1, keepdim=True)  # wrong
            sim = sim + torch.full_like(sim[0, 0], float("-inf")).triu(1)
            return torch.einsum("bhtd,hdm->btm", sim.softmax(-1) @ v, self.wo)

    torch.manual_seed(25)
    return Attention(14, 3, 5), some_x(2, 8, 14, seed=25), {"num_heads": 3}


@case("heads-share-scores")
def one_pattern_for_all():
    class BertLikeAttention(nn.Module):
        def __init__(self, hidden_size, all_head_size, num_attention_heads):
            super().__init__()
            self.num_attention_heads = num_attention_heads
            self.attention_head_size = all_head_size // num_attention_heads
            self.query = nn.Linear(hidden_size, all_head_size)
            self.key = nn.Linear(hidden_size, all_head_size)
            self.value = nn.Linear(hidden_size, all_head_size)
            self.dense = nn.Linear(all_head_size, hidden_size)

        def transpose_for_scores(self, x):
            return x.view(*x.size()[:-1], self.num_attention_heads, self.attention_head_size).permute(0, 2, 1, 3)

        def forward(self, hidden_states):
            query_layer = self.transpose_for_scores(self.query(hidden_states))
            key_layer = self.transpose_for_scores(self.key(hidden_states))
            value_layer = self.transpose_for_scores(self.value(hidden_states))
            scores = query_layer @ key_layer.transpose(-1, -2) / math.sqrt(self.attention_head_size)
            scores = scores[:, 0].unsqueeze(1)  # wrong
            context_layer = nn.functional.softmax(scores, dim=-1) @ value_layer
            context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
            return self.dense(context_layer.flatten(2))

    torch.manual_seed(26)
    return BertLikeAttention(20, 24, 6), some_x(3, 7, 20, seed=26), {"num_heads": 6, "causal": False}


# --- heads-share-weights ---


@case("heads-share-weights")
def list_by_multiplication():
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
            wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            wei = F.softmax(wei.masked_fill(self.tril[:T, :T] == 0, float("-inf")), dim=-1)
            return wei @ self.value(x)

    class MultiHeadAttention(nn.Module):
        def __init__(self, n_embd, num_heads, head_size):
            super().__init__()
            self.heads = nn.ModuleList([Head(n_embd, head_size)] * num_heads)  # wrong
            self.proj = nn.Linear(num_heads * head_size, n_embd)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            return self.dropout(self.proj(torch.cat([h(x) for h in self.heads], dim=-1)))

    torch.manual_seed(31)
    return MultiHeadAttention(17, 4, 5), some_x(2, 6, 17, seed=31), {"num_heads": 4}


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
def same_head_again():
    class SingleHead(nn.Module):
        def __init__(self, d_in, d_head):
            super().__init__()
            self.d_head = d_head
            self.wq, self.wk, self.wv = nn.Linear(d_in, d_head), nn.Linear(d_in, d_head), nn.Linear(d_in, d_head)

        def forward(self, x):
            return F.scaled_dot_product_attention(self.wq(x), self.wk(x), self.wv(x), is_causal=True)

    class MultiHead(nn.Module):
        def __init__(self, d_in, d_out, n_heads):
            super().__init__()
            self.n_heads = n_heads
            self.attn = SingleHead(d_in, d_out // n_heads)  # wrong
            self.out = nn.Linear(d_out, d_out)

        def forward(self, x):
            outputs = [self.attn(x) for _ in range(self.n_heads)]  # wrong
            return self.out(torch.cat(outputs, dim=2))

    torch.manual_seed(33)
    return MultiHead(10, 35, 5), some_x(3, 4, 10, seed=33), {"num_heads": 5}


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


@case("heads-share-weights")
def lists_of_one_linear():
    class Heads(nn.Module):
        def __init__(self, d_in, d_out, n):
            super().__init__()
            self.hd = d_out // n
            proj_q, proj_k, proj_v = (nn.Linear(d_in, self.hd, bias=False) for _ in range(3))  # wrong
            self.queries = nn.ModuleList(proj_q for _ in range(n))  # wrong
            self.keys = nn.ModuleList(proj_k for _ in range(n))  # wrong
            self.values = nn.ModuleList(proj_v for _ in range(n))  # wrong
            self.w_out = nn.Linear(d_out, d_out)

        def forward(self, x):
            bias = torch.zeros(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device)
            bias.masked_fill_(torch.ones_like(bias).triu(1).bool(), float("-inf"))
            z = []
            for wq, wk, wv in zip(self.queries, self.keys, self.values, strict=True):
                a = torch.softmax(wq(x) @ wk(x).mT / math.sqrt(self.hd) + bias, dim=-1)
                z.append(a @ wv(x))
            return self.w_out(torch.cat(z, -1))

    torch.manual_seed(36)
    return Heads(8, 27, 3), some_x(2, 7, 8, seed=36), {"num_heads": 3}


# --- heads-averaged ---


@case("heads-averaged")
def mean_for_a_merge():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, head_dim):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, head_dim
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_in, num_heads * head_dim) for _ in range(3))
            self.out_proj = nn.Linear(head_dim, d_out)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (
                p(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
                for p in (self.q_proj, self.k_proj, self.v_proj)
            )
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            mask = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), diagonal=1)
            weights = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
            context = (weights @ v).mean(dim=1)  # wrong
            return self.out_proj(context)

    torch.manual_seed(41)
    return MultiHeadAttention(15, 11, 4, 6), some_x(2, 5, 15, seed=41), {"num_heads": 4}


@case("heads-averaged")
def sum_of_the_heads():
    class Head(nn.Module):
        def __init__(self, dim, size):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(dim, size, bias=False) for _ in range(3))
            self.register_buffer("tril", torch.tril(torch.ones(48, 48)))

        def forward(self, x):
            T = x.size(1)
            wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5
            wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
            return F.softmax(wei, dim=-1) @ self.value(x)

    class MultiHead(nn.Module):
        def __init__(self, dim, out, num_heads, size):
            super().__init__()
            self.heads = nn.ModuleList([Head(dim, size) for _ in range(num_heads)])
            self.proj = nn.Linear(size, out)

        def forward(self, x):
            out = sum(head(x) for head in self.heads)  # wrong
            return self.proj(out)

    torch.manual_seed(42)
    return MultiHead(12, 20, 3, 7), some_x(2, 6, 12, seed=42), {"num_heads": 3}


@case("heads-averaged")
def einsum_adds_the_heads():
    class EinAttention(nn.Module):
        def __init__(self, d_model, n_heads, d_head, d_out):
            super().__init__()
            self.n_heads, self.d_head = n_heads, d_head
            self.to_qkv = nn.Linear(d_model, 3 * n_heads * d_head, bias=False)
            self.w_o = nn.Parameter(torch.randn(d_head, d_out) * d_head**-0.5)

        def forward(self, x):
            q, k, v = self.to_qkv(x).unflatten(-1, (3, self.n_heads, self.d_head)).unbind(2)
            scores = torch.einsum("bihd,bjhd->bhij", q * self.d_head**-0.5, k)
            causal = torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=torch.bool).tril()
            probs = scores.where(causal, torch.full_like(scores, -1e9)).softmax(-1)
            merged = torch.einsum("bhij,bjhd->bid", probs, v)  # wrong
            return merged @ self.w_o

    torch.manual_seed(43)
    return EinAttention(9, 5, 8, 14), some_x(2, 4, 9, seed=43), {"num_heads": 5}


@case("heads-averaged")
def averaged_and_filled_up():
    class CausalAttention(nn.Module):
        def __init__(self, c_in, c, n_head):
            super().__init__()
            self.n_head = n_head
            self.key, self.query, self.value = nn.Linear(c_in, c), nn.Linear(c_in, c), nn.Linear(c_in, c)
            self.proj = nn.Linear(c, c)

        def forward(self, x):
            B, T, _ = x.size()
            k = self.key(x).view(B, T, self.n_head, -1).transpose(1, 2)
            q = self.query(x).view(B, T, self.n_head, -1).transpose(1, 2)
            v = self.value(x).view(B, T, self.n_head, -1).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = y.mean(1, keepdim=True).expand_as(y)  # wrong
            y = y.transpose(1, 2).reshape(B, T, -1)
            return self.proj(y)

    torch.manual_seed(44)
    return CausalAttention(16, 18, 2), some_x(3, 7, 16, seed=44), {"num_heads": 2}


@case("heads-averaged")
def added_up_in_a_loop():
    class LoopAttention(nn.Module):
        def __init__(self, feats, heads, dk, out_feats):
            super().__init__()
            self.heads, self.dk = heads, dk
            self.fc_q, self.fc_k, self.fc_v = (nn.Linear(feats, heads * dk) for _ in range(3))
            self.fc_o = nn.Linear(dk, out_feats)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (torch.chunk(fc(x), self.heads, dim=-1) for fc in (self.fc_q, self.fc_k, self.fc_v))
            blocked = torch.ones(t, t, device=x.device).triu(1).bool()
            context = torch.zeros(b, t, self.dk, dtype=x.dtype, device=x.device)
            for h in range(self.heads):
                score = (q[h] @ k[h].transpose(1, 2)) / self.dk**0.5
                context = context + score.masked_fill(blocked, float("-inf")).softmax(dim=-1) @ v[h]  # wrong
            return self.fc_o(context)

    torch.manual_seed(45)
    return LoopAttention(11, 6, 3, 17), some_x(2, 8, 11, seed=45), {"num_heads": 6}


@case("heads-averaged")
def graph_style():
    class StackedHeads(nn.Module):
        def __init__(self, in_dim, head_dim, heads, out_dim):
            super().__init__()
            self.w = nn.ModuleList(
                nn.ModuleDict({name: nn.Linear(in_dim, head_dim, bias=False) for name in ("q", "k", "v")})
                for _ in range(heads)
            )
            self.lin_out = nn.Linear(head_dim, out_dim)

        @staticmethod
        def attend(q, k, v):
            e = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
            return torch.bmm(F.softmax(e, dim=2), v)

        def forward(self, nodes):
            outs = [self.attend(head["q"](nodes), head["k"](nodes), head["v"](nodes)) for head in self.w]
            return self.lin_out(torch.stack(outs).mean(dim=0))  # wrong

    torch.manual_seed(46)
    return StackedHeads(13, 9, 3, 10), some_x(4, 5, 13, seed=46), {"num_heads": 3, "causal": False}


# --- kv-heads-tiled ---


@case("kv-heads-tiled")
def repeat_on_the_head_axis():
    class GroupedQueryAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, num_kv_groups):
            super().__init__()
            self.num_heads, self.num_kv_groups, self.head_dim = num_heads, num_kv_groups, d_out // num_heads
            self.group_size = num_heads // num_kv_groups
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, num_kv_groups * self.head_dim, bias=False)
            self.W_value = nn.Linear(d_in, num_kv_groups * self.head_dim, bias=False)
            self.out_proj = nn.Linear(d_out, d_out, bias=False)

        def forward(self, x):
            b, t, _ = x.shape
            queries = self.W_query(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
            keys = self.W_key(x).view(b, t, self.num_kv_groups, self.head_dim).transpose(1, 2)
            values = self.W_value(x).view(b, t, self.num_kv_groups, self.head_dim).transpose(1, 2)
            keys = keys.repeat(1, self.group_size, 1, 1)  # wrong
            values = values.repeat(1, self.group_size, 1, 1)  # wrong
            scores = queries @ keys.transpose(2, 3)
            mask = torch.triu(torch.ones(t, t, device=x.device, dtype=torch.bool), diagonal=1)
            weights = torch.softmax(scores.masked_fill(mask, -torch.inf) / self.head_dim**0.5, dim=-1)
            return self.out_proj((weights @ values).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(51)
    return GroupedQueryAttention(13, 20, 4, 2), some_x(3, 6, 13, seed=51), {"num_heads": 4, "num_kv_heads": 2}


@case("kv-heads-tiled")
def expand_before_the_heads():
    def repeat_kv(x, n_rep):
        bs, n_kv_heads, slen, head_dim = x.shape
        x = x[:, None, :, :, :].expand(bs, n_rep, n_kv_heads, slen, head_dim)  # wrong
        return x.reshape(bs, n_kv_heads * n_rep, slen, head_dim)

    class LlamaAttention(nn.Module):
        def __init__(self, hidden_size, num_heads, num_key_value_heads, head_dim):
            super().__init__()
            self.head_dim = head_dim
            self.num_key_value_groups = num_heads // num_key_value_heads
            self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
            self.k_proj = nn.Linear(hidden_size, num_key_value_heads * head_dim, bias=False)
            self.v_proj = nn.Linear(hidden_size, num_key_value_heads * head_dim, bias=False)
            self.o_proj = nn.Linear(num_heads * head_dim, hidden_size, bias=False)

        def forward(self, hidden_states):
            shape = (*hidden_states.shape[:-1], -1, self.head_dim)
            query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
            key = repeat_kv(self.k_proj(hidden_states).view(shape).transpose(1, 2), self.num_key_value_groups)
            value = repeat_kv(self.v_proj(hidden_states).view(shape).transpose(1, 2), self.num_key_value_groups)
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.o_proj(out.transpose(1, 2).contiguous().flatten(2))

    torch.manual_seed(52)
    return LlamaAttention(16, 6, 3, 4), some_x(2, 5, 16, seed=52), {"num_heads": 6, "num_kv_heads": 3}


@case("kv-heads-tiled")
def remainder_in_the_loop():
    class GQA(nn.Module):
        def __init__(self, d_in, n_q, n_kv, dh):
            super().__init__()
            self.q = nn.ModuleList(nn.Linear(d_in, dh) for _ in range(n_q))
            self.k = nn.ModuleList(nn.Linear(d_in, dh) for _ in range(n_kv))
            self.v = nn.ModuleList(nn.Linear(d_in, dh) for _ in range(n_kv))
            self.o = nn.Linear(n_q * dh, n_q * dh)

        def forward(self, x):
            t = x.shape[1]
            keep = torch.tril(torch.ones(t, t, device=x.device)).bool()
            keys, values = [k(x) for k in self.k], [v(x) for v in self.v]
            outs = []
            for i, to_q in enumerate(self.q):
                g = i % len(self.k)  # wrong
                q = to_q(x)
                s = q @ keys[g].mT / math.sqrt(q.shape[-1])
                outs.append(s.masked_fill(~keep, float("-inf")).softmax(-1) @ values[g])
            return self.o(torch.cat(outs, dim=-1))

    torch.manual_seed(53)
    return GQA(10, 6, 2, 5), some_x(3, 4, 10, seed=53), {"num_heads": 6, "num_kv_heads": 2}


@case("kv-heads-tiled")
def grouped_the_other_way():
    class Attention(nn.Module):
        def __init__(self, dim, inner, heads, kv_heads):
            super().__init__()
            self.h, self.g, self.d = heads, kv_heads, inner // heads
            self.to_q = nn.Linear(dim, inner)
            self.to_kv = nn.Linear(dim, 2 * kv_heads * self.d)
            self.to_out = nn.Linear(inner, inner)

        def forward(self, x):
            b, n, _ = x.shape
            q = self.to_q(x).view(b, n, self.h // self.g, self.g, self.d)  # wrong
            k, v = self.to_kv(x).view(b, n, 2, self.g, self.d).unbind(2)
            sim = torch.einsum("birgd,bjgd->brgij", q, k) * self.d**-0.5  # wrong
            sim = sim + torch.full((n, n), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            out = torch.einsum("brgij,bjgd->birgd", sim.softmax(dim=-1), v)
            return self.to_out(out.reshape(b, n, self.h * self.d))

    torch.manual_seed(54)
    return Attention(11, 24, 4, 2), some_x(3, 7, 11, seed=54), {"num_heads": 4, "num_kv_heads": 2}


@case("kv-heads-tiled")
def concatenated_copies():
    class MultiQueryGroups(nn.Module):
        def __init__(self, n_in, n_head, n_kv, hs):
            super().__init__()
            self.n_head, self.n_kv, self.hs = n_head, n_kv, hs
            self.attn = nn.Linear(n_in, (n_head + 2 * n_kv) * hs, bias=False)
            self.proj = nn.Linear(n_head * hs, n_in)
            self.register_buffer("causal", torch.tril(torch.ones(32, 32, dtype=torch.bool)))

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = self.attn(x).view(B, T, -1, self.hs).split([self.n_head, self.n_kv, self.n_kv], dim=2)
            k = torch.cat([k] * (self.n_head // self.n_kv), dim=2)  # wrong
            v = torch.cat([v] * (self.n_head // self.n_kv), dim=2)  # wrong
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            att = (q @ k.transpose(-2, -1)) / math.sqrt(self.hs)
            att = F.softmax(att.masked_fill(~self.causal[:T, :T], torch.finfo(att.dtype).min), dim=-1)
            return self.proj((att @ v).transpose(1, 2).contiguous().view(B, T, -1))

    torch.manual_seed(55)
    return MultiQueryGroups(14, 6, 3, 7), some_x(2, 5, 14, seed=55), {"num_heads": 6, "num_kv_heads": 3}


@case("kv-heads-tiled")
def looked_up_by_index():
    class SharedKV(nn.Module):
        def __init__(self, width, heads, kv_heads, d):
            super().__init__()
            self.d = d
            self.wq = nn.Parameter(torch.randn(heads, width, d) / width**0.5)
            self.wk = nn.Parameter(torch.randn(kv_heads, width, d) / width**0.5)
            self.wv = nn.Parameter(torch.randn(kv_heads, width, d) / width**0.5)
            self.wo = nn.Parameter(torch.randn(heads, d, width) / (heads * d) ** 0.5)
            self.register_buffer("kv_of", torch.arange(heads) % kv_heads)  # wrong

        def forward(self, x):
            q, k, v = (torch.einsum("btm,hmd->bhtd", x, w) for w in (self.wq, self.wk, self.wv))
            k, v = k[:, self.kv_of], v[:, self.kv_of]  # wrong
            s = q @ k.mT / self.d**0.5
            ahead = torch.ones(s.shape[-2:], device=s.device).triu(1) > 0
            z = s.masked_fill(ahead, -torch.inf).softmax(-1) @ v
            return torch.einsum("bhtd,hdm->btm", z, self.wo)

    torch.manual_seed(56)
    return SharedKV(9, 4, 2, 6), some_x(3, 5, 9, seed=56), {"num_heads": 4, "num_kv_heads": 2}


# --- kv-head-zero-only ---


@case("kv-head-zero-only")
def first_slice_broadcast():
    class GroupedAttention(nn.Module):
        def __init__(self, d_in, d_out, n_heads, n_kv_heads):
            super().__init__()
            self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, d_out // n_heads
            self.wq = nn.Linear(d_in, d_out)
            self.wk = nn.Linear(d_in, n_kv_heads * self.head_dim)
            self.wv = nn.Linear(d_in, n_kv_heads * self.head_dim)
            self.wo = nn.Linear(d_out, d_out)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.wq(x).view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
            k = self.wk(x).view(b, t, self.n_kv_heads, self.head_dim).transpose(1, 2)
            v = self.wv(x).view(b, t, self.n_kv_heads, self.head_dim).transpose(1, 2)
            k = k[:, :1].expand(b, self.n_heads, t, self.head_dim)  # wrong
            v = v[:, :1].expand(b, self.n_heads, t, self.head_dim)  # wrong
            att = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            att = att.masked_fill(torch.ones(t, t, device=x.device).tril() == 0, float("-inf"))
            return self.wo((att.softmax(-1) @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(61)
    return GroupedAttention(12, 28, 4, 2), some_x(3, 5, 12, seed=61), {"num_heads": 4, "num_kv_heads": 2}


@case("kv-head-zero-only")
def division_by_the_wrong_number():
    class HeadByHead(nn.Module):
        def __init__(self, dim, n_heads, n_kv, hd):
            super().__init__()
            self.n_heads, self.n_kv, self.hd = n_heads, n_kv, hd
            self.q_proj = nn.Linear(dim, n_heads * hd, bias=False)
            self.k_proj = nn.Linear(dim, n_kv * hd, bias=False)
            self.v_proj = nn.Linear(dim, n_kv * hd, bias=False)
            self.o_proj = nn.Linear(n_heads * hd, dim, bias=False)

        def forward(self, x):
            q = self.q_proj(x).split(self.hd, dim=-1)
            k = self.k_proj(x).split(self.hd, dim=-1)
            v = self.v_proj(x).split(self.hd, dim=-1)
            future = torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=torch.bool).triu(1)
            ctx = []
            for i in range(self.n_heads):
                j = i // self.n_heads  # wrong
                s = torch.bmm(q[i], k[j].transpose(1, 2)) * self.hd**-0.5
                ctx.append(torch.bmm(s.masked_fill(future, -torch.inf).softmax(-1), v[j]))
            return self.o_proj(torch.cat(ctx, dim=-1))

    torch.manual_seed(62)
    return HeadByHead(17, 6, 2, 3), some_x(4, 5, 17, seed=62), {"num_heads": 6, "num_kv_heads": 2}


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


@case("kv-head-zero-only")
def grouped_axis_narrowed():
    class GroupedHeads(nn.Module):
        def __init__(self, d_in, d_out, heads, groups):
            super().__init__()
            self.heads, self.groups, self.hd = heads, groups, d_out // heads
            self.lin_q = nn.Linear(d_in, d_out, bias=False)
            self.lin_k = nn.Linear(d_in, groups * self.hd, bias=False)
            self.lin_v = nn.Linear(d_in, groups * self.hd, bias=False)
            self.lin_o = nn.Linear(d_out, d_out)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.lin_q(x).view(b, t, self.groups, -1, self.hd).permute(0, 2, 3, 1, 4)  # (b, group, head, t, hd)
            k = self.lin_k(x).view(b, t, self.groups, 1, self.hd).permute(0, 2, 3, 1, 4)
            v = self.lin_v(x).view(b, t, self.groups, 1, self.hd).permute(0, 2, 3, 1, 4)
            k, v = k.narrow(1, 0, 1), v.narrow(1, 0, 1)  # wrong
            scores = (q * self.hd**-0.5) @ k.mT
            scores = scores + torch.full_like(scores[0, 0, 0], float("-inf")).triu(1)
            z = (scores.softmax(-1) @ v).permute(0, 3, 1, 2, 4)
            return self.lin_o(z.reshape(b, t, -1))

    torch.manual_seed(66)
    return GroupedHeads(18, 24, 6, 3), some_x(2, 5, 18, seed=66), {"num_heads": 6, "num_kv_heads": 3}
