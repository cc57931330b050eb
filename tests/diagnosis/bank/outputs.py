"""Mistakes at the way out: the output projection, what is given back, and who else feels the call."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


# --- output-projection-shape ---


@case("output-projection-shape")
def four_equal_lines():
    class SelfAttention(nn.Module):
        def __init__(self, d_in, d_out, heads):
            super().__init__()
            self.heads = heads
            self.q_proj = nn.Linear(d_in, d_out)
            self.k_proj = nn.Linear(d_in, d_out)
            self.v_proj = nn.Linear(d_in, d_out)
            self.o_proj = nn.Linear(d_in, d_out)  # wrong

        def forward(self, x):
            q, k, v = (
                p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
            )
            context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.o_proj(context.transpose(1, 2).flatten(2))

    torch.manual_seed(12)
    return SelfAttention(12, 21, 3), some_x(2, 5, 12, seed=12), {"num_heads": 3}


@case("output-projection-shape")
def parameters_and_at():
    class Attention(nn.Module):
        def __init__(self, d_in, d_out, n_head):
            super().__init__()
            self.d_in, self.d_out, self.n_head = d_in, d_out, n_head
            self.wq = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))
            self.wk = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))
            self.wv = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))
            self.wo = nn.Parameter(torch.randn(d_out, d_in) / math.sqrt(d_out))  # wrong

        def heads(self, t):
            return t.reshape(t.shape[0], t.shape[1], self.n_head, -1).swapaxes(1, 2)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.heads(x @ self.wq), self.heads(x @ self.wk), self.heads(x @ self.wv)
            s = q @ k.mT / math.sqrt(q.shape[-1])
            s = s + torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
            return (s.softmax(-1) @ v).swapaxes(1, 2).reshape(b, t, -1) @ self.wo

    torch.manual_seed(13)
    return Attention(22, 10, 2), some_x(3, 7, 22, seed=13), {"num_heads": 2}


@case("output-projection-shape")
def weight_read_transposed():
    class PackedAttention(nn.Module):
        def __init__(self, in_features, out_features, num_heads):
            super().__init__()
            self.in_features, self.out_features, self.num_heads = in_features, out_features, num_heads
            self.qkv = nn.Linear(in_features, 3 * out_features, bias=False)
            self.out_weight = nn.Parameter(torch.empty(in_features, out_features))  # wrong
            self.out_bias = nn.Parameter(torch.zeros(in_features))  # wrong
            nn.init.xavier_uniform_(self.out_weight)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
            attn = scores.masked_fill(future, torch.finfo(x.dtype).min).softmax(-1)
            return F.linear((attn @ v).transpose(1, 2).reshape(b, n, -1), self.out_weight, self.out_bias)

    torch.manual_seed(15)
    return PackedAttention(13, 24, 6), some_x(3, 8, 13, seed=15), {"num_heads": 6}


@case("output-projection-shape")
def encoder_in_and_out():
    class Encoder(nn.Module):
        def __init__(self, d_in, d_out, n_heads):
            super().__init__()
            self.n_heads, self.d_head = n_heads, d_out // n_heads
            self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
            self.to_out = nn.Sequential(
                nn.Linear(d_in, d_out),  # wrong
                nn.Dropout(0.1),
            )

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (f(x).view(b, n, self.n_heads, self.d_head) for f in (self.to_q, self.to_k, self.to_v))
            attn = torch.einsum("bihd,bjhd->bhij", q, k).mul(self.d_head**-0.5).softmax(dim=-1)
            out = torch.einsum("bhij,bjhd->bihd", attn, v).reshape(b, n, -1)
            return self.to_out(out)

    torch.manual_seed(16)
    return Encoder(23, 14, 2), some_x(4, 5, 23, seed=16), {"num_heads": 2, "causal": False}


# --- input-modified ---


@case("input-modified")
def view_with_tokens_first():
    class TokensFirst(nn.Module):
        def __init__(self, d_in, d_out, heads, longest=32):
            super().__init__()
            self.heads, self.hd = heads, d_out // heads
            self.position = nn.Parameter(0.5 * torch.randn(longest, 1, d_in))
            self.linear_q, self.linear_k, self.linear_v = (nn.Linear(d_in, d_out) for _ in range(3))
            self.linear_o = nn.Linear(d_out, d_out)

        def forward(self, x):
            h = x.transpose(0, 1)
            t, b, _ = h.shape
            h.add_(self.position[:t])  # wrong
            q, k, v = (
                f(h).view(t, b * self.heads, self.hd).transpose(0, 1)
                for f in (self.linear_q, self.linear_k, self.linear_v)
            )
            mask = torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
            z = (torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.hd) + mask).softmax(-1).bmm(v)
            return self.linear_o(z.transpose(0, 1).reshape(t, b, -1)).transpose(0, 1)

    torch.manual_seed(43)
    return TokensFirst(9, 16, 2), some_x(4, 7, 9, seed=43), {"num_heads": 2}


@case("input-modified")
def result_added_to_x():
    class Residual(nn.Module):
        def __init__(self, d_model, n_heads, d_head):
            super().__init__()
            self.W = nn.Parameter(torch.randn(3, n_heads, d_model, d_head) * d_model**-0.5)
            self.W_O = nn.Parameter(torch.randn(n_heads, d_head, d_model) * (n_heads * d_head) ** -0.5)

        def forward(self, x):
            q, k, v = torch.einsum("btm,chmd->cbhtd", x, self.W)
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
            t = x.shape[1]
            keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            weights = torch.where(keep, scores, -torch.inf).softmax(-1)
            x += torch.einsum("bhqk,bhkd,hdm->bqm", weights, v, self.W_O)  # wrong
            return x

    torch.manual_seed(45)
    return Residual(12, 6, 4), some_x(3, 8, 12, seed=45), {"num_heads": 6}


@case("input-modified")
def padded_rows_cleared():
    class MaskedEncoder(nn.Module):
        def __init__(self, hidden, width, heads):
            super().__init__()
            self.heads = heads
            self.q_lin, self.k_lin, self.v_lin = (nn.Linear(hidden, width) for _ in range(3))
            self.out_lin = nn.Linear(width, width)

        def forward(self, x, padding):
            b, t, _ = x.shape
            x.masked_fill_(padding[:, :, None], 0.0)  # wrong
            q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q_lin, self.k_lin, self.v_lin))
            scores = q @ k.mT / q.shape[-1] ** 0.5
            weights = scores.masked_fill(padding[:, None, None], torch.finfo(scores.dtype).min).softmax(-1)
            return self.out_lin((weights @ v).transpose(1, 2).reshape(b, t, -1))

    def padding_of(x):
        lengths = x.shape[1] - torch.arange(x.shape[0], device=x.device) % 3
        return torch.arange(x.shape[1], device=x.device) >= lengths[:, None]

    torch.manual_seed(46)
    x = some_x(4, 6, 11, seed=46)
    options = {
        "num_heads": 3,
        "causal": False,
        "keep": ~padding_of(x)[:, None, None],
        "call": lambda m, x: m(x, padding_of(x)),
    }
    return MaskedEncoder(11, 24, 3), x, options


# --- batch-mixed ---


@case("batch-mixed")
def letter_of_the_samples():
    class EinsumAttention(nn.Module):
        def __init__(self, d_in, d_out, heads):
            super().__init__()
            self.heads, self.hd = heads, d_out // heads
            self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
            self.to_out = nn.Linear(d_out, d_out)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (f(x).view(b, n, self.heads, self.hd) for f in (self.to_q, self.to_k, self.to_v))
            sim = torch.einsum("bihd,njhd->bhij", q, k) * self.hd**-0.5  # wrong
            sim = sim.masked_fill(torch.ones(n, n, device=x.device).triu(1).bool(), float("-inf"))
            out = torch.einsum("bhij,bjhd->bihd", sim.softmax(dim=-1), v)
            return self.to_out(out.reshape(b, n, -1))

    torch.manual_seed(51)
    return EinsumAttention(13, 20, 4), some_x(2, 6, 13, seed=51), {"num_heads": 4}


@case("batch-mixed")
def heads_before_samples():
    class BmmAttention(nn.Module):
        def __init__(self, embed, inner, n_heads):
            super().__init__()
            self.n_heads, self.dk = n_heads, inner // n_heads
            self.q_lin, self.k_lin, self.v_lin = (nn.Linear(embed, inner) for _ in range(3))
            self.o_lin = nn.Linear(inner, embed)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (
                f(x).view(b, t, self.n_heads, self.dk).transpose(1, 2).reshape(b * self.n_heads, t, self.dk)
                for f in (self.q_lin, self.k_lin, self.v_lin)
            )
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.dk)
            scores = scores + torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
            out = torch.bmm(F.softmax(scores, dim=-1), v)
            out = out.view(self.n_heads, b, t, self.dk).permute(1, 2, 0, 3)  # wrong
            return self.o_lin(out.reshape(b, t, -1))

    torch.manual_seed(52)
    return BmmAttention(10, 21, 3), some_x(4, 5, 10, seed=52), {"num_heads": 3}


@case("batch-mixed")
def module_wants_tokens_first():
    class DecoderAttention(nn.Module):
        def __init__(self, d_in, d_model, nhead):
            super().__init__()
            self.embed = nn.Linear(d_in, d_model)
            self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=0.1)  # wrong

        def forward(self, x):
            h = self.embed(x)
            length = h.size(0)  # wrong
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            out, _ = self.self_attn(h, h, h, attn_mask=future, need_weights=False)
            return out

    torch.manual_seed(53)
    return DecoderAttention(11, 18, 2), some_x(3, 7, 11, seed=53), {"num_heads": 2}


@case("batch-mixed")
def softmax_with_an_axis_too_many():
    class ExpAttention(nn.Module):
        def __init__(self, dim, heads, dim_head):
            super().__init__()
            self.dim_head = dim_head
            self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(heads, dim, dim_head) / dim**0.5) for _ in range(3))
            self.wo = nn.Linear(heads * dim_head, dim)

        def forward(self, x):
            q, k, v = (x[:, None] @ w for w in (self.wq, self.wk, self.wv))
            scores = q @ k.mT / math.sqrt(self.dim_head)
            powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True)).tril()
            weights = powers / powers.sum(dim=(0, -1), keepdim=True)  # wrong
            return self.wo((weights @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(56)
    return ExpAttention(16, 6, 3), some_x(2, 5, 16, seed=56), {"num_heads": 6}
