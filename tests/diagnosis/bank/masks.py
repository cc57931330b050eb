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


# mask-discarded


@case("mask-discarded")
def packed_projection():
    class CausalSelfAttention(nn.Module):
        def __init__(self, n_embd, n_inner, n_head, block_size):
            super().__init__()
            self.n_head = n_head
            self.c_attn = nn.Linear(n_embd, 3 * n_inner)
            self.c_proj = nn.Linear(n_inner, n_inner)
            self.attn_dropout = nn.Dropout(0.1)
            self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size))[None, None])

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = self.c_attn(x).chunk(3, dim=2)
            q, k, v = (m.view(B, T, self.n_head, -1).transpose(1, 2) for m in (q, k, v))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))  # wrong
            att = self.attn_dropout(F.softmax(att, dim=-1))
            y = (att @ v).transpose(1, 2).contiguous().view(B, T, -1)
            return self.c_proj(y)

    torch.manual_seed(1)
    return CausalSelfAttention(10, 12, 3, 32), some_x(2, 5, 10), {"num_heads": 3}


@case("mask-discarded")
def one_head_with_parameters():
    class Attention(nn.Module):
        def __init__(self, d_model, d_k):
            super().__init__()
            self.w_q = nn.Parameter(torch.randn(d_model, d_k) / d_model**0.5)
            self.w_k = nn.Parameter(torch.randn(d_model, d_k) / d_model**0.5)
            self.w_v = nn.Parameter(torch.randn(d_model, d_k) / d_model**0.5)

        def forward(self, x):
            n = x.shape[1]
            queries, keys, values = x @ self.w_q, x @ self.w_k, x @ self.w_v
            scores = queries @ keys.mT / keys.shape[-1] ** 0.5
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            scores[:, future].fill_(-torch.inf)  # wrong
            return scores.softmax(dim=-1) @ values

    torch.manual_seed(2)
    return Attention(13, 7), some_x(3, 6, 13), {"num_heads": 1}


@case("mask-discarded")
def keeps_scores_for_a_plot():
    class EinsumAttention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads = heads
            self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
            self.to_out = nn.Linear(heads * dim_head, 17)
            self.last_scores = None

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, -1).unbind(dim=2)
            sim = torch.einsum("bihd,bjhd->bhij", q * q.shape[-1] ** -0.5, k)
            i = torch.arange(n, device=x.device)
            masked = torch.where(i[:, None] >= i, sim, -torch.inf)  # wrong
            self.last_scores = masked.detach()
            attn = sim.softmax(dim=-1)  # wrong
            out = torch.einsum("bhij,bjhd->bihd", attn, v)
            return self.to_out(out.reshape(b, n, -1))

    torch.manual_seed(3)
    return EinsumAttention(14, 4, 3), some_x(2, 7, 14), {"num_heads": 4}


@case("mask-discarded")
def loop_with_an_added_bias():
    class MultiHead(nn.Module):
        def __init__(self, size, heads, per_head):
            super().__init__()
            self.queries = nn.ModuleList(nn.Linear(size, per_head) for _ in range(heads))
            self.keys = nn.ModuleList(nn.Linear(size, per_head) for _ in range(heads))
            self.values = nn.ModuleList(nn.Linear(size, per_head) for _ in range(heads))
            self.merge = nn.Linear(heads * per_head, heads * per_head)
            self.scale = per_head**-0.5

        def forward(self, x):
            n = x.size(1)
            bias = torch.full((n, n), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
            results = []
            for query, key, value in zip(self.queries, self.keys, self.values, strict=True):
                scores = torch.bmm(query(x), key(x).transpose(1, 2)) * self.scale
                torch.add(scores, bias)  # wrong
                results.append(torch.bmm(torch.softmax(scores, dim=2), value(x)))
            return self.merge(torch.cat(results, dim=2))

    torch.manual_seed(4)
    return MultiHead(9, 2, 8), some_x(4, 6, 9), {"num_heads": 2}


@case("mask-discarded")
def helper_methods():
    class GroupedAttention(nn.Module):
        def __init__(self, hidden_size, num_heads, num_kv_heads, head_dim):
            super().__init__()
            self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, head_dim
            self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
            self.k_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
            self.v_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
            self.o_proj = nn.Linear(num_heads * head_dim, 20, bias=False)

        def split(self, states, heads):
            states = states.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)
            return states.repeat_interleave(self.num_heads // heads, dim=1)

        def hide_future(self, scores):
            length = scores.size(-1)
            positions = torch.arange(length, device=scores.device)
            scores.masked_fill(positions > positions.unsqueeze(-1), torch.finfo(scores.dtype).min)  # wrong
            return scores

        def forward(self, hidden_states):
            q = self.split(self.q_proj(hidden_states), self.num_heads)
            k = self.split(self.k_proj(hidden_states), self.num_kv_heads)
            v = self.split(self.v_proj(hidden_states), self.num_kv_heads)
            scores = self.hide_future(q @ k.transpose(-1, -2) / math.sqrt(self.head_dim))
            context = scores.softmax(-1) @ v
            return self.o_proj(context.transpose(1, 2).flatten(2))

    torch.manual_seed(5)
    return GroupedAttention(15, 6, 2, 5), some_x(2, 4, 15), {"num_heads": 6, "num_kv_heads": 2}


@case("mask-discarded")
def head_by_head_rebinding():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, num_heads, context_length=64):
            super().__init__()
            self.num_heads = num_heads
            self.W_query = nn.Linear(d_in, d_out)
            self.W_key = nn.Linear(d_in, d_out)
            self.W_value = nn.Linear(d_in, d_out)
            self.out_proj = nn.Linear(d_out, d_out)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1).bool())

        def forward(self, x):
            b, t, _ = x.shape
            q = self.W_query(x).view(b, t, self.num_heads, -1).permute(2, 0, 1, 3)
            k = self.W_key(x).view(b, t, self.num_heads, -1).permute(2, 0, 1, 3)
            v = self.W_value(x).view(b, t, self.num_heads, -1).permute(2, 0, 1, 3)
            scores = torch.matmul(q, k.transpose(2, 3)).div(math.sqrt(q.shape[-1]))
            for head_scores in scores:
                head_scores = head_scores.masked_fill(self.mask[:t, :t], -1e9)  # wrong
            context = torch.matmul(torch.softmax(scores, -1), v)
            return self.out_proj(context.permute(1, 2, 0, 3).reshape(b, t, -1))

    torch.manual_seed(6)
    return MultiHeadAttention(16, 18, 3), some_x(2, 8, 16), {"num_heads": 3}


# no-causal-mask


@case("no-causal-mask")
def library_call():
    class Attention(nn.Module):
        def __init__(self, dim, inner, n_heads):
            super().__init__()
            self.n_heads = n_heads
            self.wqkv = nn.Linear(dim, 3 * inner, bias=False)
            self.wo = nn.Linear(inner, inner, bias=False)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.wqkv(x).view(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)  # wrong
            return self.wo(y.transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(7)
    return Attention(9, 20, 4), some_x(3, 7, 9), {"num_heads": 4}


@case("no-causal-mask")
def optional_mask():
    class MultiHeadedAttention(nn.Module):
        def __init__(self, h, d_model, d_k):
            super().__init__()
            self.h, self.d_k = h, d_k
            self.linears = nn.ModuleList(nn.Linear(d_model, h * d_k) for _ in range(3))
            self.final = nn.Linear(h * d_k, 23)
            self.dropout = nn.Dropout(p=0.1)

        def attention(self, query, key, value, mask=None):
            scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
            if mask is not None:
                scores = scores.masked_fill(mask == 0, -1e9)
            p_attn = self.dropout(scores.softmax(dim=-1))
            return torch.matmul(p_attn, value)

        def forward(self, x, mask=None):
            n = x.size(0)
            query, key, value = (lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2) for lin in self.linears)
            x = self.attention(query, key, value, mask=mask)
            return self.final(x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))

    torch.manual_seed(8)
    # The caller leaves the mask out; without `call`, the doctor would offer one.
    return MultiHeadedAttention(5, 12, 4), some_x(2, 6, 12), {"num_heads": 5, "call": lambda m, x: m(x)}


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


@case("no-causal-mask")
def list_of_heads():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size):
            super().__init__()
            self.key = nn.Linear(n_embd, head_size, bias=False)
            self.query = nn.Linear(n_embd, head_size, bias=False)
            self.value = nn.Linear(n_embd, head_size, bias=False)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            k, q = self.key(x), self.query(x)
            wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            wei = self.dropout(F.softmax(wei, dim=-1))
            return wei @ self.value(x)

    class MultiHeadAttention(nn.Module):
        def __init__(self, n_embd, num_heads, head_size):
            super().__init__()
            self.heads = nn.ModuleList([Head(n_embd, head_size) for _ in range(num_heads)])
            self.proj = nn.Linear(head_size * num_heads, 19)

        def forward(self, x):
            return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))

    torch.manual_seed(10)
    return MultiHeadAttention(17, 3, 6), some_x(2, 8, 17), {"num_heads": 3}


@case("no-causal-mask")
def buffer_of_ones():
    class MaskedAttention(nn.Module):
        def __init__(self, emb, inner, heads, max_len=64):
            super().__init__()
            self.heads = heads
            self.to_q = nn.Linear(emb, inner)
            self.to_kv = nn.Linear(emb, 2 * inner)
            self.to_out = nn.Linear(inner, inner)
            self.register_buffer("allowed", torch.ones(1, 1, max_len, max_len))  # wrong

        def forward(self, x):
            b, n, _ = x.shape
            q = self.to_q(x).view(b, n, self.heads, -1).transpose(1, 2)
            k, v = (part.view(b, n, self.heads, -1).transpose(1, 2) for part in self.to_kv(x).chunk(2, dim=-1))
            dots = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
            dots = dots.masked_fill(self.allowed[..., :n, :n] == 0, -torch.inf)
            out = torch.einsum("bhij,bhjd->bhid", dots.softmax(-1), v)
            return self.to_out(out.transpose(1, 2).flatten(2))

    torch.manual_seed(11)
    return MaskedAttention(16, 18, 2), some_x(3, 4, 16), {"num_heads": 2}


@case("no-causal-mask")
def wrapped_library_module():
    class DecoderAttention(nn.Module):
        def __init__(self, d_model, nhead):
            super().__init__()
            self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=0.1, batch_first=True)

        def forward(self, tgt):
            out, _ = self.self_attn(tgt, tgt, tgt, need_weights=False)  # wrong
            return out

    torch.manual_seed(12)
    return DecoderAttention(15, 3), some_x(2, 6, 15), {"num_heads": 3}


@case("no-causal-mask")
def function_with_a_loop_over_tokens():
    torch.manual_seed(13)
    w_q, w_k, w_v = torch.randn(3, 10, 9) / 10**0.5

    def attend(x):
        q, k, v = x @ w_q.to(x), x @ w_k.to(x), x @ w_v.to(x)
        outputs = []
        for t in range(x.shape[1]):
            scores = (k * q[:, t : t + 1]).sum(dim=-1) / 3.0  # sqrt(9)
            weights = torch.softmax(scores, dim=-1)
            outputs.append((weights.unsqueeze(-1) * v).sum(dim=1))
        return torch.stack(outputs, dim=1)

    return attend, some_x(4, 5, 10), {"num_heads": 1}


# mask-inverted


@case("mask-inverted")
def hidden_pairs_for_the_library_call():
    class SelfAttention(nn.Module):
        def __init__(self, embed_dim, inner_dim, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.qkv = nn.Linear(embed_dim, 3 * inner_dim)
            self.proj = nn.Linear(inner_dim, inner_dim)

        def forward(self, x):
            B, N, _ = x.shape
            q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            mask = torch.ones(N, N, dtype=torch.bool, device=x.device).triu(diagonal=1)
            x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # wrong
            return self.proj(x.transpose(1, 2).reshape(B, N, -1))

    torch.manual_seed(14)
    return SelfAttention(10, 21, 3), some_x(2, 6, 10), {"num_heads": 3}


@case("mask-inverted")
def masked_fill_where_it_is_one():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size, block_size):
            super().__init__()
            self.key = nn.Linear(n_embd, head_size)
            self.query = nn.Linear(n_embd, head_size)
            self.value = nn.Linear(n_embd, head_size)
            self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

        def forward(self, x):
            T = x.shape[1]
            wei = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(self.key.out_features)
            wei = wei.masked_fill(self.tril[:T, :T] == 1, float("-inf"))  # wrong
            return F.softmax(wei, dim=-1) @ self.value(x)

    torch.manual_seed(15)
    return Head(12, 8, 32), some_x(3, 5, 12), {"num_heads": 1}


@case("mask-inverted")
def where_with_its_branches_exchanged():
    class Attention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads, self.scale = heads, dim_head**-0.5
            self.wq = nn.Parameter(torch.randn(heads, dim, dim_head) * dim**-0.5)
            self.wk = nn.Parameter(torch.randn(heads, dim, dim_head) * dim**-0.5)
            self.wv = nn.Parameter(torch.randn(heads, dim, dim_head) * dim**-0.5)
            self.wo = nn.Parameter(torch.randn(heads, dim_head, 22) * 0.2)

        def forward(self, x):
            q, k, v = (torch.einsum("btd,hde->bhte", x, w) for w in (self.wq, self.wk, self.wv))
            sim = torch.einsum("bhqe,bhke->bhqk", q, k) * self.scale
            pos = torch.arange(x.shape[1], device=x.device)
            causal = pos[None, :] <= pos[:, None]
            sim = torch.where(causal, torch.finfo(sim.dtype).min, sim)  # wrong
            return torch.einsum("bhqk,bhke,heo->bqo", sim.softmax(-1), v, self.wo)

    torch.manual_seed(16)
    return Attention(13, 4, 5), some_x(2, 7, 13), {"num_heads": 4}


@case("mask-inverted")
def billion_times_the_wrong_triangle():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_model, num_heads, depth):
            super().__init__()
            self.num_heads, self.depth = num_heads, depth
            self.wq = nn.Linear(d_model, num_heads * depth)
            self.wk = nn.Linear(d_model, num_heads * depth)
            self.wv = nn.Linear(d_model, num_heads * depth)
            self.dense = nn.Linear(num_heads * depth, num_heads * depth)

        def split_heads(self, x):
            return x.reshape(x.shape[0], -1, self.num_heads, self.depth).transpose(1, 2)

        def forward(self, x):
            size = x.shape[1]
            q, k, v = self.split_heads(self.wq(x)), self.split_heads(self.wk(x)), self.split_heads(self.wv(x))
            look_ahead_mask = torch.ones(size, size, dtype=x.dtype, device=x.device).tril()
            logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.depth)
            logits = logits + look_ahead_mask * -1e9  # wrong
            output = torch.matmul(torch.softmax(logits, dim=-1), v)
            return self.dense(output.transpose(1, 2).reshape(x.shape[0], size, -1))

    torch.manual_seed(17)
    return MultiHeadAttention(18, 5, 3), some_x(4, 6, 18), {"num_heads": 5}


@case("mask-inverted")
def allowed_pairs_for_the_library_module():
    class CausalBlock(nn.Module):
        def __init__(self, d_model, nhead):
            super().__init__()
            self.attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)

        def forward(self, x):
            length = x.size(1)
            visible = torch.tril(torch.ones(length, length, device=x.device)).bool()
            return self.attn(x, x, x, attn_mask=visible, need_weights=False)[0]  # wrong

    torch.manual_seed(18)
    return CausalBlock(20, 4), some_x(3, 5, 20), {"num_heads": 4}


@case("mask-inverted")
def folded_heads_and_a_negated_mask():
    class FoldedAttention(nn.Module):
        def __init__(self, in_features, heads, width):
            super().__init__()
            self.heads, self.width = heads, width
            self.q_lin = nn.Linear(in_features, heads * width)
            self.k_lin = nn.Linear(in_features, heads * width)
            self.v_lin = nn.Linear(in_features, heads * width)
            self.out_lin = nn.Linear(heads * width, 16)

        def fold(self, x):
            b, t, _ = x.shape
            return x.view(b, t, self.heads, self.width).transpose(1, 2).reshape(b * self.heads, t, self.width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.fold(self.q_lin(x)), self.fold(self.k_lin(x)), self.fold(self.v_lin(x))
            future = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), 1)
            w = torch.bmm(q, k.transpose(1, 2)) / self.width**0.5
            w = torch.softmax(w.masked_fill_(~future, -1e9), dim=2)  # wrong
            y = torch.bmm(w, v).view(b, self.heads, t, self.width).transpose(1, 2)
            return self.out_lin(y.reshape(b, t, -1))

    torch.manual_seed(19)
    return FoldedAttention(9, 2, 6), some_x(2, 8, 9), {"num_heads": 2}


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


# mask-off-by-one


@case("mask-off-by-one")
def upper_triangle_with_its_diagonal():
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.1):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, d_out // num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.out_proj = nn.Linear(d_out, d_out)
            self.dropout = nn.Dropout(dropout)
            self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length)))  # wrong

        def forward(self, x):
            b, num_tokens, _ = x.shape
            keys = self.W_key(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            values = self.W_value(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            attn_scores = queries @ keys.transpose(2, 3)
            attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
            attn_weights = self.dropout(torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1))
            context_vec = (attn_weights @ values).transpose(1, 2).contiguous().view(b, num_tokens, -1)
            return self.out_proj(context_vec)

    torch.manual_seed(21)
    return MultiHeadAttention(8, 15, 64, 3), some_x(2, 6, 8), {"num_heads": 3}


@case("mask-off-by-one")
def sees_one_step_ahead():
    class Attention(nn.Module):
        def __init__(self, size, head_size):
            super().__init__()
            self.qkv = nn.Linear(size, 3 * head_size)

        def forward(self, x):
            q, k, v = self.qkv(x).split(self.qkv.out_features // 3, dim=-1)
            n = x.size(-2)
            scores = torch.einsum("bqd,bkd->bqk", q, k) / q.size(-1) ** 0.5
            visible = torch.tril(torch.ones(n, n, device=x.device), diagonal=1)  # wrong
            scores = scores.masked_fill(visible == 0, float("-inf"))
            return torch.einsum("bqk,bkd->bqd", torch.softmax(scores, -1), v)

    torch.manual_seed(22)
    return Attention(11, 9), some_x(3, 5, 11), {"num_heads": 1}


@case("mask-off-by-one")
def positions_compared_with_or_equal():
    class GQA(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads, head_dim):
            super().__init__()
            self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
            self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
            self.wk = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wv = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wo = nn.Linear(n_heads * head_dim, dim + 3, bias=False)

        def forward(self, x):
            bsz, seqlen, _ = x.shape
            group = self.n_heads // self.n_kv_heads
            xq = self.wq(x).view(bsz, seqlen, self.n_kv_heads, group, self.head_dim)
            xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
            xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
            scores = torch.einsum("bqgnd,bkgd->bgnqk", xq, xk) * self.head_dim**-0.5
            pos = torch.arange(seqlen, device=x.device)
            hidden = pos[None, :] >= pos[:, None]  # wrong
            probs = scores.masked_fill(hidden, -1e9).softmax(dim=-1)
            return self.wo(torch.einsum("bgnqk,bkgd->bqgnd", probs, xv).flatten(2))

    torch.manual_seed(23)
    return GQA(14, 4, 2, 6), some_x(2, 7, 14), {"num_heads": 4, "num_kv_heads": 2}


@case("mask-off-by-one")
def growing_slices_of_the_keys():
    class Streaming(nn.Module):
        def __init__(self, d_model, heads, d_head):
            super().__init__()
            self.heads, self.d_head = heads, d_head
            self.linear_q = nn.Linear(d_model, heads * d_head)
            self.linear_k = nn.Linear(d_model, heads * d_head)
            self.linear_v = nn.Linear(d_model, heads * d_head)
            self.linear_out = nn.Linear(heads * d_head, 13)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.linear_q(x).view(b, t, self.heads, self.d_head)
            k = self.linear_k(x).view(b, t, self.heads, self.d_head)
            v = self.linear_v(x).view(b, t, self.heads, self.d_head)
            steps = []
            for i in range(t):
                seen = slice(0, i + 2)  # wrong
                scores = torch.einsum("bhd,bkhd->bhk", q[:, i], k[:, seen]) / math.sqrt(self.d_head)
                steps.append(torch.einsum("bhk,bkhd->bhd", scores.softmax(-1), v[:, seen]).flatten(1))
            return self.linear_out(torch.stack(steps, dim=1))

    torch.manual_seed(24)
    return Streaming(16, 2, 7), some_x(4, 5, 16), {"num_heads": 2}


@case("mask-off-by-one")
def float_mask_for_the_library_call():
    class FlashAttention(nn.Module):
        def __init__(self, n_embd, n_head, head_dim):
            super().__init__()
            self.n_head = n_head
            self.in_proj = nn.Linear(n_embd, 3 * n_head * head_dim)
            self.out_proj = nn.Linear(n_head * head_dim, n_head * head_dim)

        def forward(self, x):
            t = x.shape[1]
            qkv = self.in_proj(x).unflatten(-1, (3, self.n_head, -1)).transpose(1, 3)
            q, k, v = qkv.unbind(2)
            minus_inf = torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=minus_inf.triu(diagonal=2))  # wrong
            return self.out_proj(y.transpose(1, 2).flatten(-2))

    torch.manual_seed(25)
    return FlashAttention(17, 6, 3), some_x(3, 8, 17), {"num_heads": 6}


@case("mask-off-by-one")
def bottom_triangle_without_its_diagonal():
    torch.manual_seed(26)
    q_weight, k_weight, v_weight = (nn.Linear(10, 8, bias=False).weight.detach() for _ in range(3))
    o_weight = nn.Linear(8, 9, bias=False).weight.detach()

    def attention(x, num_heads=2):
        batch, seq_len, _ = x.shape

        def heads_of(weight):
            return F.linear(x, weight.to(x)).reshape(batch, seq_len, num_heads, -1).permute(0, 2, 1, 3)

        query, key, value = heads_of(q_weight), heads_of(k_weight), heads_of(v_weight)
        allowed = torch.ones((seq_len, seq_len), dtype=torch.bool, device=x.device).tril(-1)  # wrong
        logits = torch.where(allowed, query @ key.transpose(-1, -2) / key.shape[-1] ** 0.5, -1e9)
        mixed = (logits.softmax(-1) @ value).permute(0, 2, 1, 3).reshape(batch, seq_len, -1)
        return F.linear(mixed, o_weight.to(x))

    return attention, some_x(2, 4, 10), {"num_heads": 2}


# mask-transposed


@case("mask-transposed")
def triu_where_tril_was_meant():
    class CausalSelfAttention(nn.Module):
        def __init__(self, n_embd, n_head, head_size, block_size):
            super().__init__()
            self.n_head, self.head_size = n_head, head_size
            self.c_attn = nn.Linear(n_embd, 3 * n_head * head_size, bias=False)
            self.c_proj = nn.Linear(n_head * head_size, n_embd + 2, bias=False)
            mask = torch.triu(torch.ones(block_size, block_size))  # wrong
            self.register_buffer("bias", mask.view(1, 1, block_size, block_size))

        def forward(self, x):
            B, T, _ = x.size()
            q, k, v = self.c_attn(x).split(self.n_head * self.head_size, dim=2)
            k = k.view(B, T, self.n_head, -1).transpose(1, 2)
            q = q.view(B, T, self.n_head, -1).transpose(1, 2)
            v = v.view(B, T, self.n_head, -1).transpose(1, 2)
            att = (q @ k.transpose(-2, -1)) / math.sqrt(self.head_size)
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))  # hide the future
            y = F.softmax(att, dim=-1) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, -1))

    torch.manual_seed(27)
    return CausalSelfAttention(13, 3, 4, 32), some_x(2, 5, 13), {"num_heads": 3}


@case("mask-transposed")
def positions_compared_in_the_wrong_order():
    class Attention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.heads = heads
            self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
            self.to_k = nn.Linear(dim, heads * dim_head, bias=False)
            self.to_v = nn.Linear(dim, heads * dim_head, bias=False)
            self.to_out = nn.Sequential(nn.Linear(heads * dim_head, 21), nn.Dropout(0.1))

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (f(x).view(b, n, self.heads, -1) for f in (self.to_q, self.to_k, self.to_v))
            sim = torch.einsum("b i h d, b j h d -> b h i j", q, k) / q.shape[-1] ** 0.5
            steps = torch.arange(n, device=x.device)
            allowed = steps.view(1, n) >= steps.view(n, 1)  # wrong
            sim = torch.where(allowed, sim, torch.finfo(sim.dtype).min)
            out = torch.einsum("b h i j, b j h d -> b i h d", sim.softmax(dim=-1), v)
            return self.to_out(out.reshape(b, n, -1))

    torch.manual_seed(28)
    return Attention(15, 4, 6), some_x(3, 7, 15), {"num_heads": 4}


@case("mask-transposed")
def additive_bottom_half():
    class SingleHead(nn.Module):
        def __init__(self, d_in, d_k, d_v):
            super().__init__()
            self.W_Q = nn.Parameter(torch.empty(d_in, d_k))
            self.W_K = nn.Parameter(torch.empty(d_in, d_k))
            self.W_V = nn.Parameter(torch.empty(d_in, d_v))
            for weight in self.parameters():
                nn.init.xavier_normal_(weight)

        def forward(self, x):
            Q, K, V = x @ self.W_Q, x @ self.W_K, x @ self.W_V
            L = x.size(1)
            no_peeking = torch.full((L, L), -torch.inf, dtype=x.dtype, device=x.device).tril(-1)  # wrong
            A = torch.softmax(Q @ K.transpose(1, 2) / math.sqrt(K.size(2)) + no_peeking, dim=2)
            return A @ V

    torch.manual_seed(29)
    return SingleHead(9, 6, 6), some_x(4, 6, 9), {"num_heads": 1}


@case("mask-transposed")
def turned_for_the_library_call():
    class TransformerAttention(nn.Module):
        def __init__(self, hidden, n_heads, n_kv, head_dim):
            super().__init__()
            self.n_heads, self.n_kv, self.head_dim = n_heads, n_kv, head_dim
            self.q_proj = nn.Linear(hidden, n_heads * head_dim)
            self.k_proj = nn.Linear(hidden, n_kv * head_dim)
            self.v_proj = nn.Linear(hidden, n_kv * head_dim)
            self.o_proj = nn.Linear(n_heads * head_dim, n_heads * head_dim, bias=False)
            self.register_buffer("causal", torch.ones(64, 64, dtype=torch.bool).tril(), persistent=False)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.q_proj(x).view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
            k = self.k_proj(x).view(b, t, self.n_kv, self.head_dim).transpose(1, 2)
            v = self.v_proj(x).view(b, t, self.n_kv, self.head_dim).transpose(1, 2)
            mask = self.causal[:t, :t].transpose(0, 1)  # wrong
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
            return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(30)
    return TransformerAttention(19, 6, 3, 4), some_x(2, 8, 19), {"num_heads": 6, "num_kv_heads": 3}


@case("mask-transposed")
def scores_with_keys_first():
    class Head(nn.Module):
        def __init__(self, width, head_width):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(width, head_width) for _ in range(3))

        def forward(self, x):
            q, k, v = self.q(x), self.k(x), self.v(x)
            n = x.shape[1]
            scores = k @ q.mT / q.shape[-1] ** 0.5  # (batch, key, query)
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)  # wrong
            weights = scores.masked_fill(future, -torch.inf).softmax(dim=1)  # wrong
            return weights.mT @ v

    class Heads(nn.Module):
        def __init__(self, width, count, head_width):
            super().__init__()
            self.heads = nn.ModuleList(Head(width, head_width) for _ in range(count))
            self.mix = nn.Linear(count * head_width, 11)

        def forward(self, x):
            return self.mix(torch.cat([head(x) for head in self.heads], dim=-1))

    torch.manual_seed(31)
    return Heads(12, 2, 5), some_x(3, 4, 12), {"num_heads": 2}


@case("mask-transposed")
def nested_loops_fill_the_mask():
    class OldSchoolAttention(nn.Module):
        def __init__(self, features, heads, size):
            super().__init__()
            self.heads = heads
            self.projections = nn.ModuleDict({name: nn.Linear(features, heads * size) for name in "qkv"})
            self.output = nn.Linear(heads * size, heads * size)

        def future(self, n, device):
            mask = torch.zeros(n, n, dtype=torch.bool, device=device)
            for key in range(n):
                for query in range(key):
                    mask[key, query] = True  # wrong
            return mask

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (self.projections[name](x).view(b, n, self.heads, -1).transpose(1, 2) for name in "qkv")
            scores = torch.matmul(q, k.permute(0, 1, 3, 2)).div(math.sqrt(q.size(3)))
            scores = scores.masked_fill(self.future(n, x.device), -1e9)
            context = torch.matmul(scores.softmax(3), v)
            return self.output(context.transpose(1, 2).reshape(b, n, -1))

    torch.manual_seed(32)
    return OldSchoolAttention(10, 5, 3), some_x(2, 6, 10), {"num_heads": 5}


# mask-after-softmax


@case("mask-after-softmax")
def weights_times_the_triangle():
    class CausalAttention(nn.Module):
        def __init__(self, d_in, d_out, context_length=32):
            super().__init__()
            self.W_query = nn.Linear(d_in, d_out, bias=False)
            self.W_key = nn.Linear(d_in, d_out, bias=False)
            self.W_value = nn.Linear(d_in, d_out, bias=False)
            self.register_buffer("mask_simple", torch.tril(torch.ones(context_length, context_length)))

        def forward(self, x):
            n = x.shape[1]
            queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
            attn_weights = torch.softmax(queries @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5, dim=-1)
            masked_simple = attn_weights * self.mask_simple[:n, :n]  # wrong
            return masked_simple @ values

    torch.manual_seed(33)
    return CausalAttention(11, 6), some_x(3, 6, 11), {"num_heads": 1}


@case("mask-after-softmax")
def fills_probabilities_with_zero():
    class SelfAttention(nn.Module):
        def __init__(self, embed, heads, head_dim):
            super().__init__()
            self.heads, self.head_dim = heads, head_dim
            self.qkv = nn.Linear(embed, 3 * heads * head_dim)
            self.unify = nn.Linear(heads * head_dim, embed - 1)
            self.drop = nn.Dropout(0.1)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, self.heads, 3 * self.head_dim).transpose(1, 2).chunk(3, dim=-1)
            probs = torch.softmax(q @ k.transpose(-2, -1) * self.head_dim**-0.5, dim=-1)
            future = torch.triu(torch.ones(t, t, device=x.device), diagonal=1) == 1
            probs = self.drop(probs.masked_fill(future, 0.0))  # wrong
            return self.unify((probs @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(34)
    return SelfAttention(16, 4, 5), some_x(2, 7, 16), {"num_heads": 4}


@case("mask-after-softmax")
def folded_and_cut():
    class Attention(nn.Module):
        def __init__(self, dim, n_heads, size):
            super().__init__()
            self.n_heads, self.size = n_heads, size
            self.query, self.key, self.value = (nn.Linear(dim, n_heads * size) for _ in range(3))
            self.out = nn.Linear(n_heads * size, n_heads * size)

        def fold(self, t):
            return t.unflatten(2, (self.n_heads, self.size)).transpose(1, 2).flatten(0, 1)

        def forward(self, x):
            q, k, v = self.fold(self.query(x)), self.fold(self.key(x)), self.fold(self.value(x))
            alpha = torch.baddbmm(q.new_zeros(1), q, k.mT, beta=0, alpha=self.size**-0.5).softmax(dim=-1)
            context = torch.bmm(alpha.tril(), v)  # wrong
            return self.out(context.unflatten(0, (-1, self.n_heads)).transpose(1, 2).flatten(2))

    torch.manual_seed(35)
    return Attention(9, 2, 8), some_x(4, 5, 9), {"num_heads": 2}


@case("mask-after-softmax")
def einsum_with_where():
    class EinsumAttention(nn.Module):
        def __init__(self, model, heads, key):
            super().__init__()
            self.w_qkv = nn.Parameter(torch.randn(3, model, heads, key) * model**-0.5)
            self.w_o = nn.Parameter(torch.randn(heads, key, 20) * (heads * key) ** -0.5)

        def forward(self, x):
            q, k, v = torch.einsum("btm,smhk->sbhtk", x, self.w_qkv)
            logits = torch.einsum("bhqk,bhsk->bhqs", q, k) / math.sqrt(q.shape[-1])
            weights = torch.exp(logits - logits.logsumexp(dim=-1, keepdim=True))
            t = torch.arange(x.shape[1], device=x.device)
            weights = torch.where(t[:, None] >= t[None, :], weights, torch.zeros_like(weights))  # wrong
            return torch.einsum("bhqs,bhsk,hkm->bqm", weights, v, self.w_o)

    torch.manual_seed(36)
    return EinsumAttention(14, 3, 7), some_x(2, 8, 14), {"num_heads": 3}


@case("mask-after-softmax")
def list_of_heads_with_indexed_zeros():
    class AttentionHead(nn.Module):
        def __init__(self, hidden, head_dim):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(hidden, head_dim) for _ in range(3))

        def forward(self, x):
            weights = F.softmax(torch.bmm(self.q(x), self.k(x).mT) / self.q.out_features**0.5, dim=-1)
            rows, columns = torch.triu_indices(x.shape[1], x.shape[1], offset=1, device=x.device)
            weights = weights.clone()
            weights[:, rows, columns] = 0  # wrong
            return torch.bmm(weights, self.v(x))

    class MultiHead(nn.Module):
        def __init__(self, hidden, count, head_dim):
            super().__init__()
            self.heads = nn.ModuleList([AttentionHead(hidden, head_dim) for _ in range(count)])
            self.output_linear = nn.Linear(count * head_dim, 17)

        def forward(self, x):
            return self.output_linear(torch.cat([h(x) for h in self.heads], dim=-1))

    torch.manual_seed(37)
    return MultiHead(18, 5, 4), some_x(3, 5, 18), {"num_heads": 5}


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


# mask-with-zero


@case("mask-with-zero")
def scores_times_the_triangle():
    class CausalAttention(nn.Module):
        def __init__(self, dim, heads, head_dim, max_tokens=64):
            super().__init__()
            self.heads, self.head_dim = heads, head_dim
            self.q_proj = nn.Linear(dim, heads * head_dim)
            self.k_proj = nn.Linear(dim, heads * head_dim)
            self.v_proj = nn.Linear(dim, heads * head_dim)
            self.out_proj = nn.Linear(heads * head_dim, heads * head_dim)
            self.register_buffer("mask", torch.tril(torch.ones(max_tokens, max_tokens)))

        def forward(self, x):
            b, t, _ = x.shape
            shape = (b, t, self.heads, self.head_dim)
            q, k, v = (p(x).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            scores = (q @ k.mT) / math.sqrt(self.head_dim)
            scores = scores * self.mask[:t, :t]  # wrong
            return self.out_proj((torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, t, -1))

    torch.manual_seed(39)
    return CausalAttention(10, 3, 6), some_x(2, 7, 10), {"num_heads": 3}


@case("mask-with-zero")
def masked_fill_with_zero():
    class Head(nn.Module):
        def __init__(self, n_embd, head_size):
            super().__init__()
            self.key = nn.Linear(n_embd, head_size, bias=False)
            self.query = nn.Linear(n_embd, head_size, bias=False)
            self.value = nn.Linear(n_embd, head_size, bias=False)

        def forward(self, x):
            T = x.shape[-2]
            wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5
            wei = wei.masked_fill(torch.ones(T, T, device=x.device).tril() == 0, 0)  # wrong
            return wei.softmax(dim=-1) @ self.value(x)

    class MultiHead(nn.Module):
        def __init__(self, n_embd, n_head, head_size):
            super().__init__()
            self.heads = nn.ModuleList([Head(n_embd, head_size) for _ in range(n_head)])
            self.proj = nn.Linear(n_head * head_size, n_embd + 4)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            return self.dropout(self.proj(torch.cat([h(x) for h in self.heads], dim=-1)))

    torch.manual_seed(40)
    return MultiHead(13, 4, 5), some_x(3, 6, 13), {"num_heads": 4}


@case("mask-with-zero")
def billionth_instead_of_minus_a_billion():
    class SelfAttention(nn.Module):
        def __init__(self, d_model, n_heads, d_k):
            super().__init__()
            self.n_heads = n_heads
            self.proj_in = nn.Linear(d_model, 3 * n_heads * d_k)
            self.proj_out = nn.Linear(n_heads * d_k, 16)

        def forward(self, x):
            b, s, _ = x.size()
            q, k, v = self.proj_in(x).view(b, s, 3, self.n_heads, -1).unbind(2)
            energy = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.size(-1) ** 0.5
            keep = torch.ones(s, s, dtype=torch.bool, device=x.device).tril()
            energy = energy.masked_fill(~keep, 1e-9)  # wrong
            out = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(energy, dim=3), v)
            return self.proj_out(out.reshape(b, s, -1))

    torch.manual_seed(41)
    return SelfAttention(11, 2, 9), some_x(4, 5, 11), {"num_heads": 2}


@case("mask-with-zero")
def tril_of_the_scores():
    torch.manual_seed(42)
    w = {name: torch.randn(12, 7) / 12**0.5 for name in ("query", "key", "value")}

    def causal_attention(x):
        query, key, value = (x @ w[name].to(x) for name in ("query", "key", "value"))
        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
        weights = torch.softmax(torch.tril(scores), dim=-1)  # wrong
        return weights @ value

    return causal_attention, some_x(2, 8, 12), {"num_heads": 1}


@case("mask-with-zero")
def smallest_positive_number():
    class LlamaLikeAttention(nn.Module):
        def __init__(self, hidden_size, n_heads, n_kv_heads, head_dim):
            super().__init__()
            self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
            self.q_proj = nn.Linear(hidden_size, n_heads * head_dim, bias=False)
            self.k_proj = nn.Linear(hidden_size, n_kv_heads * head_dim, bias=False)
            self.v_proj = nn.Linear(hidden_size, n_kv_heads * head_dim, bias=False)
            self.o_proj = nn.Linear(n_heads * head_dim, hidden_size - 2, bias=False)

        def forward(self, x):
            bsz, q_len, _ = x.shape
            q = self.q_proj(x).view(bsz, q_len, self.n_heads, self.head_dim).transpose(1, 2)
            k = self.k_proj(x).view(bsz, q_len, self.n_kv_heads, self.head_dim).transpose(1, 2)
            v = self.v_proj(x).view(bsz, q_len, self.n_kv_heads, self.head_dim).transpose(1, 2)
            k, v = (s.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for s in (k, v))
            scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
            past = torch.ones(q_len, q_len, dtype=torch.bool, device=x.device).tril()
            scores = torch.where(past, scores, torch.finfo(scores.dtype).tiny)  # wrong
            attn = torch.matmul(scores.softmax(dim=-1), v)
            return self.o_proj(attn.transpose(1, 2).reshape(bsz, q_len, -1))

    torch.manual_seed(43)
    return LlamaLikeAttention(20, 6, 3, 4), some_x(3, 4, 20), {"num_heads": 6, "num_kv_heads": 3}


@case("mask-with-zero")
def folded_and_zeroed_in_place():
    class BatchedAttention(nn.Module):
        def __init__(self, d_in, heads, d_head):
            super().__init__()
            self.heads, self.d_head = heads, d_head
            self.to_queries = nn.Linear(d_in, heads * d_head)
            self.to_keys = nn.Linear(d_in, heads * d_head)
            self.to_values = nn.Linear(d_in, heads * d_head)
            self.unify_heads = nn.Linear(heads * d_head, 14)

        def forward(self, x):
            b, t, _ = x.size()
            h, s = self.heads, self.d_head
            queries = self.to_queries(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
            keys = self.to_keys(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
            values = self.to_values(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
            dot = torch.bmm(queries / s**0.25, (keys / s**0.25).transpose(1, 2))
            upper = torch.triu_indices(t, t, offset=1, device=x.device)
            dot[..., upper[0], upper[1]] = 0.0  # wrong
            out = torch.bmm(F.softmax(dot, dim=2), values).view(b, h, t, s)
            return self.unify_heads(out.transpose(1, 2).contiguous().view(b, t, s * h))

    torch.manual_seed(44)
    return BatchedAttention(15, 5, 3), some_x(2, 6, 15), {"num_heads": 5}


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


@case("mask-discarded")
def window_computed_and_not_kept():
    class Attention(nn.Module):
        def __init__(self, width, heads, reach):
            super().__init__()
            self.heads, self.reach = heads, reach
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            places = torch.arange(x.shape[1], device=x.device)
            behind = places[:, None] - places
            allowed = behind >= 0
            allowed.logical_and(behind < self.reach)  # wrong
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
            return self.out(out.transpose(1, 2).flatten(2))

    torch.manual_seed(97)
    return Attention(12, 3, 3), some_x(2, 7, 12), {"num_heads": 3, "window": 3}
