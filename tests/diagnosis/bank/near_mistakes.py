"""Right attention code that resembles a mistake: twins of the wrong cases, and other unusual shapes."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import vmap

from .case import collector, some_x

CASES, case = collector()


def init(*shape):
    return nn.Parameter(torch.randn(*shape) / math.sqrt(shape[-2]))


def later(n, device):
    at = torch.arange(n, device=device)
    return at > at[:, None]


def pad(x, side="right"):
    """True where there is a token; sample i has i padded ones, and one in front always stays."""
    n = x.shape[1]
    gone = torch.arange(x.shape[0], device=x.device).clamp(max=n - 1)[:, None]
    at = torch.arange(n, device=x.device)
    return at < n - gone if side == "right" else at >= gone


@case(None)
def sound_a_letter_summed_away():
    torch.manual_seed(313)

    class Grouped(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.q = nn.Linear(d_in, h * d, bias=False)
            self.k, self.v = nn.Linear(d_in, kv * d, bias=False), nn.Linear(d_in, kv * d, bias=False)
            self.o = nn.Linear(h * d, d_out)

        def forward(self, x):
            b, n, _ = x.shape
            q = self.q(x).view(b, n, self.h, self.d)
            k, v = (f(x).view(b, n, self.kv, self.d).repeat_interleave(self.h // self.kv, 2) for f in (self.k, self.v))
            s = torch.einsum("bqhd,bkhd->bqkh", q, k).div(self.d**0.5)
            p = s.masked_fill(later(n, x.device).unsqueeze(-1), -math.inf).softmax(2)
            return self.o(torch.einsum("bqkh,bkhd->bqhd", p, v).flatten(2))

    return Grouped(10, 13, 4, 2, 6), some_x(2, 7, 10, 13), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def sound_a_running_sum_of_the_unit_matrix():
    torch.manual_seed(332)

    class Block(nn.Module):
        def __init__(self, width, h):
            super().__init__()
            self.h, self.norm = h, nn.LayerNorm(width)
            self.w = nn.Parameter(torch.randn(4, width, width) * width**-0.5)

        def hidden(self, n, like):
            one = torch.eye(n, device=like.device)
            return one.cumsum(1) - one > 0

        def forward(self, x):
            z = self.norm(x)
            q, k, v = ((z @ w).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in self.w[:3])
            s = q @ k.mT * q.shape[-1] ** -0.5
            s = s.masked_fill(self.hidden(x.shape[1], s), torch.finfo(s.dtype).min)
            return x + (s.softmax(-1) @ v).transpose(1, 2).flatten(2) @ self.w[3]

    return Block(18, 3), some_x(3, 6, 18, 32), {"num_heads": 3}


@case(None)
def sound_mapped_over_heads_and_samples():
    torch.manual_seed(339)

    def one(q, k, v):
        s = q @ k.T / math.sqrt(q.shape[1])
        return s.masked_fill(later(len(q), q.device), -math.inf).softmax(1) @ v

    class Block(nn.Module):
        def __init__(self, width, h):
            super().__init__()
            self.h, self.norm = h, nn.LayerNorm(width)
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            parts = self.qkv(self.norm(x)).unflatten(-1, (3, self.h, -1)).unbind(2)
            y = vmap(vmap(one, in_dims=1, out_dims=1))(*parts)
            return x + self.o(y.flatten(2))

    return Block(12, 2), some_x(2, 5, 12, 39), {"num_heads": 2}


@case(None)
def sound_masks_for_folded_lanes():
    torch.manual_seed(347)

    class Folded(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.q, self.k, self.v = nn.Linear(d_in, h * d), nn.Linear(d_in, kv * d), nn.Linear(d_in, kv * d)
            self.o = nn.Linear(h * d, d_out)

        def fold(self, t):
            t = t.unflatten(-1, (-1, self.d)).transpose(1, 2)
            return t.repeat_interleave(self.h // t.shape[1], 1).flatten(0, 1)

        def forward(self, x, tokens):
            q, k, v = (self.fold(f(x)) for f in (self.q, self.k, self.v))
            hide = ~tokens[:, None] | later(x.shape[1], x.device)
            hide = hide.repeat_interleave(self.h, 0)
            s = torch.bmm(q, k.mT).mul(self.d**-0.5).masked_fill(hide, torch.finfo(x.dtype).min)
            y = torch.bmm(s.softmax(-1), v)
            return self.o(y.unflatten(0, (-1, self.h)).transpose(1, 2).flatten(2))

    x = some_x(3, 6, 9, 47)
    options = {"num_heads": 4, "num_kv_heads": 2, "keep": pad(x)[:, None, None], "call": lambda m, x: m(x, pad(x))}
    return Folded(9, 14, 4, 2, 3), x, options


@case(None)
def sound_an_axis_that_moved():
    torch.manual_seed(363)

    class HeadsLast(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.h, self.kv = h, kv
            self.wq = nn.Parameter(torch.randn(d_in, d, h) * d_in**-0.5)
            self.wk = nn.Parameter(torch.randn(d_in, d, kv) * d_in**-0.5)
            self.wv = nn.Parameter(torch.randn(d_in, d, kv) * d_in**-0.5)
            self.wo = nn.Parameter(torch.randn(d, h, d_out) * (d * h) ** -0.5)

        def forward(self, x):
            q, k, v = (torch.tensordot(x, w, 1) for w in (self.wq, self.wk, self.wv))
            k, v = (t.repeat_interleave(self.h // self.kv, 3) for t in (k, v))
            q = q * q.shape[-2] ** -0.5
            s = torch.einsum("bqdh,bkdh->bkqh", q, k)
            s = s.masked_fill(later(x.shape[1], x.device).T[..., None], -math.inf)
            return torch.einsum("bkqh,bkdh,dho->bqo", s.softmax(1), v, self.wo)

    return HeadsLast(9, 12, 4, 2, 10), some_x(2, 5, 9, 63), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def sound_a_pen_that_moves_by_one():
    torch.manual_seed(418)

    class Store:
        def __init__(self, room=32):
            self.room, self.at, self.kv = room, 0, None

        def put(self, kv):
            n = kv.shape[-2]
            end = self.at + n
            if self.kv is None:
                self.kv = kv.new_zeros(*kv.shape[:-2], self.room, kv.shape[-1])
            self.kv[..., self.at : end, :] = kv
            self.at += n
            return self.kv[..., :end, :].clone()

    class Cached(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.h, self.qkv, self.o = h, nn.Linear(d_in, 3 * h * d), nn.Linear(h * d, d_out)

        def forward(self, x, store):
            q, *kv = self.qkv(x).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
            k, v = store.put(torch.stack(kv))
            s = q @ k.mT / math.sqrt(q.shape[-1])
            look = torch.ones_like(s, dtype=torch.bool).tril(s.shape[-1] - s.shape[-2])
            y = torch.where(look, s, -math.inf).softmax(-1) @ v
            return self.o(y.transpose(1, 2).flatten(2))

    def decode(m, x):
        store, first = Store(), (x.shape[1] + 1) // 2
        parts = [x[:, :first], *x[:, first:].split(1, 1)]
        return torch.cat([m(part, store) for part in parts if part.shape[1]], 1)

    return Cached(10, 13, 3, 4), some_x(2, 6, 10, 118), {"num_heads": 3, "call": decode}


@case(None)
def slopes_for_distances():
    torch.manual_seed(434)

    class Slopes(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.q, self.k, self.v = nn.Linear(d_in, h * d), nn.Linear(d_in, kv * d), nn.Linear(d_in, kv * d)
            self.o = nn.Linear(h * d, d_out)

        def bias(self, n, like):
            at = torch.arange(n, device=like.device, dtype=torch.float64)
            slope = 2.0 ** -torch.arange(1, self.h + 1, device=like.device, dtype=torch.float64)
            far = slope[:, None, None] * (at - at[:, None])
            return far.masked_fill(far > 0, -math.inf).to(like.dtype)

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (-1, self.d)).transpose(1, 2) for f in (self.q, self.k, self.v))
            bias = self.bias(x.shape[1], x)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)
            return self.o(y.transpose(1, 2).flatten(2))

    return Slopes(11, 15, 4, 2, 6), some_x(2, 7, 11, 134), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def time_runs_backwards():
    torch.manual_seed(437)

    class Backwards(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.h, self.qkv, self.o = h, nn.Linear(d_in, 3 * h * d), nn.Linear(h * d, d_out)

        def forward(self, x):
            q, k, v = self.qkv(x.flip(1)).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
            s = q @ k.mT / math.sqrt(q.shape[-1])
            look = torch.ones_like(s, dtype=torch.bool).triu()
            y = s.masked_fill(~look, -math.inf).softmax(-1) @ v
            return self.o(y.transpose(1, 2).flatten(2)).flip(1)

    return Backwards(9, 12, 3, 5), some_x(3, 5, 9, 137), {"num_heads": 3}


@case(None)
def values_and_way_out_in_one():
    torch.manual_seed(438)

    class Fused(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.wq, self.wk, self.w_out = init(h, d_in, d), init(h, d_in, d), init(h, d_in, d_out)

        def forward(self, x):
            q, k = (torch.einsum("bnc,hcd->bhnd", x, w) for w in (self.wq, self.wk))
            p = F.softmax((q @ k.mT * q.shape[-1] ** -0.5).masked_fill(later(x.shape[1], x.device), -math.inf), -1)
            return torch.einsum("bhqk,bkc,hco->bqo", p, x, self.w_out)

    return Fused(8, 11, 4, 6), some_x(2, 6, 8, 138), {"num_heads": 4}


@case(None)
def rows_without_a_key_become_zero():
    torch.manual_seed(439)

    class Safe(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.h, self.qkv, self.o = h, nn.Linear(d_in, 3 * h * d), nn.Linear(h * d, d_out)

        def forward(self, x, tokens):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
            look = tokens[:, None, None] & ~later(x.shape[1], x.device)
            s = q @ k.mT * q.shape[-1] ** -0.5
            e = (s - s.amax(-1, keepdim=True)).exp() * look
            p = e / (e.sum(-1, keepdim=True) + ~look.any(-1, keepdim=True))
            return self.o((p @ v).transpose(1, 2).flatten(2))

    x = some_x(3, 6, 14, 139)
    keep = pad(x, "left")[:, None, None]
    return Safe(14, 10, 3, 4), x, {"num_heads": 3, "keep": keep, "call": lambda m, x: m(x, pad(x, "left"))}


@case(None)
def two_by_two_rotations():
    torch.manual_seed(441)

    def rotations(n, pairs, like):
        at = torch.arange(n, device=like.device, dtype=torch.float64)
        angle = torch.outer(at, 30.0 ** (-torch.arange(pairs, device=like.device, dtype=torch.float64) / pairs))
        rows = (torch.stack((angle.cos(), -angle.sin()), -1), torch.stack((angle.sin(), angle.cos()), -1))
        return torch.stack(rows, -2).to(like.dtype)

    class Rotated(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.kv, self.d = kv, d
            self.wq, self.wk, self.wv = init(d_in, h * d), init(d_in, kv * d), init(d_in, kv * d)
            self.wo = init(h * d, d_out)

        def forward(self, x):
            spin = rotations(x.shape[1], self.d // 2, x)
            q = (x @ self.wq).unflatten(-1, (self.kv, -1, self.d // 2, 2))
            k = (x @ self.wk).unflatten(-1, (self.kv, self.d // 2, 2))
            v = (x @ self.wv).unflatten(-1, (self.kv, self.d))
            q, k = torch.einsum("npij,bngrpj->bngrpi", spin, q), torch.einsum("npij,bngpj->bngpi", spin, k)
            s = torch.einsum("bqgrpi,bkgpi->bgrqk", q, k) / math.sqrt(self.d)
            p = s.masked_fill(later(x.shape[1], x.device), -math.inf).softmax(-1)
            return torch.einsum("bgrqk,bkgd->bqgrd", p, v).flatten(2) @ self.wo

    return Rotated(10, 13, 6, 2, 4), some_x(2, 6, 10, 141), {"num_heads": 6, "num_kv_heads": 2}


@case(None)
def tiles_of_queries_and_keys():
    torch.manual_seed(443)

    class Tiles(nn.Module):
        def __init__(self, width, h):
            super().__init__()
            self.h, self.norm = h, nn.LayerNorm(width)
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def tile(self, q, k, v, first):
            n, low = q.shape[-2], torch.finfo(q.dtype).min
            at = torch.arange(first, first + n, device=q.device)[:, None]
            top, total, acc = torch.full_like(q[..., :1], low), torch.zeros_like(q[..., :1]), torch.zeros_like(q)
            for j in range(0, first + n, 3):
                keys, values = k[..., j : j + 3, :], v[..., j : j + 3, :]
                s = q @ keys.mT
                s = s.masked_fill(torch.arange(j, j + keys.shape[-2], device=q.device) > at, -math.inf)
                new = torch.maximum(top, s.amax(-1, keepdim=True))
                old, e, top = torch.exp(top - new), torch.exp(s - new), new
                total, acc = total * old + e.sum(-1, keepdim=True), acc * old + e @ values
            return acc / total

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
            q = q * q.shape[-1] ** -0.5
            y = torch.cat([self.tile(part, k, v, 2 * i) for i, part in enumerate(q.split(2, 2))], 2)
            return x + self.o(y.transpose(1, 2).flatten(2))

    return Tiles(20, 5), some_x(2, 7, 20, 143), {"num_heads": 5}


@case(None)
def a_shift_that_changes_nothing():
    torch.manual_seed(444)

    class Shifted(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.r, self.d = h // kv, d
            self.q, self.k, self.v = nn.Linear(d_in, h * d), nn.Linear(d_in, kv * d), nn.Linear(d_in, kv * d)
            self.o = nn.Linear(h * d, d_out)

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (-1, self.d)).transpose(1, 2) for f in (self.q, self.k, self.v))
            k, v = k.repeat_interleave(self.r, 1), v.repeat_interleave(self.r, 1)
            s = (q @ k.mT) * self.d**-0.5
            s = s - s.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
            p = s.add(s.new_full(s.shape[-2:], -math.inf).triu(1)).softmax(-1)
            return self.o((p @ v).transpose(1, 2).flatten(2))

    return Shifted(9, 14, 4, 2, 5), some_x(3, 6, 9, 144), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def heads_folded_into_tokens():
    torch.manual_seed(446)

    class OneKey(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.h, self.d = h, d
            self.q, self.k, self.v = nn.Linear(d_in, h * d), nn.Linear(d_in, d), nn.Linear(d_in, d)
            self.o = nn.Linear(h * d, d_out)

        def forward(self, x):
            b, n, _ = x.shape
            q = self.q(x).view(b, n * self.h, self.d)
            hide = later(n, x.device).repeat_interleave(self.h, 0)
            s = torch.bmm(q, self.k(x).mT).mul(self.d**-0.5).masked_fill(hide, -math.inf)
            return self.o(torch.bmm(s.softmax(-1), self.v(x)).view(b, n, -1))

    return OneKey(10, 12, 4, 8), some_x(2, 5, 10, 146), {"num_heads": 4, "num_kv_heads": 1}
