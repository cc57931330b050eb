"""Right attention code that resembles a mistake: twins of the wrong cases, and other unusual shapes."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, vmap

from .case import collector, some_x

CASES, case = collector()


def init(*shape):
    return nn.Parameter(torch.randn(*shape) / math.sqrt(shape[-2]))


def later(n, device):
    at = torch.arange(n, device=device)
    return at > at[:, None]


def turn(t, start=0):
    """Rotary positions for (..., token, width)."""
    n, half = t.shape[-2], t.shape[-1] // 2
    at = torch.arange(start, start + n, device=t.device, dtype=torch.float64)
    rate = 100.0 ** (-torch.arange(half, device=t.device, dtype=torch.float64) / half)
    angle = at[:, None] * rate
    cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
    a, b = t.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def pad(x, side="right"):
    """True where there is a token; sample i has i padded ones, and one in front always stays."""
    n = x.shape[1]
    gone = torch.arange(x.shape[0], device=x.device).clamp(max=n - 1)[:, None]
    at = torch.arange(n, device=x.device)
    return at < n - gone if side == "right" else at >= gone


@case(None)
def sound_values_of_one_sequence():
    torch.manual_seed(303)
    h, kv, d = 4, 2, 5
    wq, wk, wv, wo = init(11, h * d), init(11, kv * d), init(11, kv * d), init(h * d, 9)

    def mix(x):
        n = len(x)
        q = (x @ wq).view(n, h, d).movedim(1, 0)
        k = (x @ wk).view(n, kv, d).movedim(1, 0)
        v = (x @ wv).view(n, kv, d).movedim(1, 0)
        k, v = (t.repeat_interleave(h // kv, 0) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.movedim(0, 1).flatten(1) @ wo

    return mix, some_x(1, 7, 11, 3)[0], {"num_heads": h, "num_kv_heads": kv}


@case(None)
def sound_groups_in_five_axes():
    torch.manual_seed(306)

    def flat(z, shape):
        return torch.reshape(z.permute(0, 3, 1, 2, 4), shape)

    class Grouped(nn.Module):
        def __init__(self, d_in, d_out, groups, ratio, d):
            super().__init__()
            self.g, self.r, self.d = groups, ratio, d
            self.q = nn.Linear(d_in, groups * ratio * d)
            self.kv = nn.Linear(d_in, 2 * groups * d)
            self.o = nn.Linear(groups * ratio * d, d_out)

        def forward(self, x):
            b, n, _ = x.shape
            q = self.q(x).view(b, n, self.g, self.r, self.d)
            k, v = self.kv(x).view(b, n, 2, self.g, self.d).unbind(2)
            s = torch.einsum("bqgrd,bkgd->bgrqk", q, k) / self.d**0.5
            p = torch.where(later(n, x.device), -math.inf, s).softmax(-1)
            return self.o(flat(torch.einsum("bgrqk,bkgd->bgrqd", p, v), (b, n, self.g * self.r * self.d)))

    return Grouped(9, 14, 2, 3, 4), some_x(3, 8, 9, 6), {"num_heads": 6, "num_kv_heads": 2}


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
def sound_groups_inside():
    torch.manual_seed(317)

    class Five(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.q, self.kv_pack = nn.Linear(d_in, h * d), nn.Linear(d_in, 2 * kv * d)
            self.o = nn.Linear(h * d, d_out, bias=False)

        def forward(self, x):
            q = self.q(x).unflatten(-1, (self.kv, self.h // self.kv, self.d)).transpose(2, 3)
            k, v = self.kv_pack(x).unflatten(-1, (2, self.kv, self.d)).unbind(2)
            s = torch.einsum("bqrgd,bkgd->bqkrg", q, k) / math.sqrt(self.d)
            hide = later(x.shape[1], x.device)[:, :, None, None]
            y = torch.einsum("bqkrg,bkgd->bqrgd", s.masked_fill(hide, -math.inf).softmax(2), v)
            return self.o(y.transpose(2, 3).flatten(2))

    return Five(11, 16, 4, 2, 3), some_x(3, 7, 11, 17), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def sound_filled_in_a_clone():
    torch.manual_seed(324)
    h, d = 2, 3
    w = init(3, h, 9, d)
    back = init(h * d, 7)

    def attention(x):
        q, k, v = torch.einsum("nc,rhcd->rhnd", x, w)
        s = torch.einsum("hqd,hkd->hkq", q, k) * d**-0.5  # a column is a query
        at = torch.arange(len(x), device=x.device)
        s.masked_fill_(at[:, None] > at, -math.inf)
        y = torch.einsum("hkq,hkd->qhd", s.softmax(1), v)
        return y.flatten(1) @ back

    return attention, some_x(1, 6, 9, 24)[0], {"num_heads": 2}


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
def sound_a_total_taken_too_early():
    torch.manual_seed(338)

    class Own(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.wq, self.wk, self.wv = init(d_in, h * d), init(d_in, kv * d), init(d_in, kv * d)
            self.wo = init(h * d, d_out)

        def forward(self, x):
            q = (x @ self.wq).unflatten(-1, (self.kv, -1, self.d)).permute(0, 2, 3, 1, 4)
            k, v = ((x @ w).unflatten(-1, (self.kv, 1, self.d)).permute(0, 2, 3, 1, 4) for w in (self.wk, self.wv))
            s = torch.matmul(q, k.mT) * self.d**-0.5
            e = torch.exp(s - s.amax(-1, keepdim=True))
            e = e.tril()
            total = e.sum(-1, keepdim=True)
            y = torch.matmul(e / total, v)
            return y.permute(0, 3, 1, 2, 4).flatten(2) @ self.wo

    return Own(10, 15, 4, 2, 6), some_x(3, 6, 10, 38), {"num_heads": 4, "num_kv_heads": 2}


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
def sound_three_letters_in_one_product():
    torch.manual_seed(341)

    class Three(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.scale, self.w, self.o = d**-0.5, init(3, h, d_in, d), init(h, d, d_out)

        def forward(self, x):
            q, k, v = torch.einsum("bnc,rhcd->rbnhd", x, self.w)
            look = (~later(x.shape[1], x.device)).to(x.dtype)
            s = torch.einsum("bqhd,bkhd->bhqk", q * self.scale, k) + look.log()
            return torch.einsum("bhqk,bkhd,hdo->bqo", s.softmax(-1), v, self.o)

    return Three(8, 12, 4, 3), some_x(3, 7, 8, 41), {"num_heads": 4}


@case(None)
def sound_two_ranges_of_numbers():
    torch.manual_seed(344)

    class Chunked(nn.Module):
        def __init__(self, d_in, d_out, h, kv, d):
            super().__init__()
            self.kv, self.d = kv, d
            self.q, self.k, self.v = nn.Linear(d_in, h * d), nn.Linear(d_in, kv * d), nn.Linear(d_in, kv * d)
            self.o = nn.Linear(h * d, d_out)

        def hide(self, keys, queries, device):
            at_q = torch.arange(keys - queries, keys, device=device)
            return torch.arange(keys, device=device)[:, None] > at_q

        def forward(self, x, past=None):
            q = self.q(x).unflatten(-1, (self.kv, -1, self.d))
            now = torch.stack((self.k(x), self.v(x))).unflatten(-1, (self.kv, self.d))
            now = now if past is None else torch.cat((past, now), 2)
            s = torch.einsum("bkgd,bqgrd->bgrkq", now[0], q) / math.sqrt(self.d)
            p = s.masked_fill(self.hide(s.shape[-2], s.shape[-1], x.device), -math.inf).softmax(-2)
            return self.o(torch.einsum("bgrkq,bkgd->bqgrd", p, now[1]).flatten(2)), now

    def decode(m, x):
        half = (x.shape[1] + 1) // 2
        first, past = m(x[:, :half])
        return torch.cat((first, m(x[:, half:], past)[0]), 1) if half < x.shape[1] else first

    options = {"num_heads": 4, "num_kv_heads": 2, "call": decode}
    return Chunked(10, 13, 4, 2, 4), some_x(3, 6, 10, 44), options


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
def sound_functional_parameters():
    torch.manual_seed(357)
    lin = nn.Linear(9, 12)
    weights = {r: {"weight": init(12, 9), "bias": nn.Parameter(torch.randn(12) * 0.1)} for r in "qkv"}
    out = nn.Linear(12, 14)

    def project(role, x):
        params = {name: p.to(x) for name, p in weights[role].items()}
        return functional_call(lin, params, (x,)).unflatten(-1, (3, 4))

    def attention(x):
        k = project("k", x)
        v = project("v", x)
        q = project("q", x)
        s = torch.einsum("bkhd,bqhd->hbkq", k, q) / 2.0
        p = s.masked_fill(later(x.shape[1], x.device).T, -math.inf).softmax(2)
        return out(torch.einsum("hbkq,bkhd->bqhd", p, v).flatten(2))

    return attention, some_x(2, 6, 9, 57), {"num_heads": 3}


@case(None)
def sound_a_temperature_of_one():
    torch.manual_seed(359)

    class Scores(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.temperature = d**0.5

        def forward(self, q, k):
            return torch.einsum("qbhd,kbhd->hbkq", q, k) / self.temperature

    class Attention(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.h, self.scores = h, Scores(d)
            self.q, self.k, self.v = (nn.Linear(d_in, h * d, bias=False) for _ in range(3))
            self.o = nn.Linear(h * d, d_out)

        def forward(self, x):
            q, k, v = (f(x.transpose(0, 1)).unflatten(-1, (self.h, -1)) for f in (self.q, self.k, self.v))
            s = self.scores(q, k)
            p = s.masked_fill(later(len(q), x.device).T, -math.inf).softmax(-2)
            return self.o(torch.einsum("hbkq,kbhd->bqhd", p, v).flatten(2))

    return Attention(12, 9, 8, 16), some_x(2, 5, 12, 59), {"num_heads": 8}


@case(None)
def sound_narrow_keys_and_wide_values():
    torch.manual_seed(362)

    class TwoWidths(nn.Module):
        def __init__(self, d_in, d_out, h, d_key, d_value):
            super().__init__()
            self.h = h
            self.q, self.k = nn.Linear(d_in, h * d_key), nn.Linear(d_in, h * d_key)
            self.v, self.o = nn.Linear(d_in, h * d_value), nn.Linear(h * d_value, d_out)

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (self.h, -1)) for f in (self.q, self.k, self.v))
            s = torch.einsum("bqhd,bkhd->bqhk", q, k)
            s = s / math.sqrt(k.shape[-1])
            p = s.masked_fill(later(x.shape[1], x.device)[:, None], -math.inf).softmax(-1)
            return self.o(torch.einsum("bqhk,bkhd->bqhd", p, v).flatten(2))

    return TwoWidths(14, 11, 3, 4, 12), some_x(3, 7, 14, 62), {"num_heads": 3}


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
def sound_a_sum_over_rows():
    torch.manual_seed(366)
    h, d = 3, 6
    w, wo = init(3, h, 11, d), init(h * d, 13)

    def attention(x):
        n = x.shape[1]
        q, k, v = torch.einsum("bnc,rhcd->rhbnd", x, w)
        s = torch.matmul(q * d**-0.5, k.mT)
        e = (s - s.amax((-2, -1), keepdim=True)).exp() * torch.ones(n, n, device=x.device, dtype=x.dtype).tril()
        y = (e / e.sum(-1, keepdim=True)) @ v
        return torch.cat(tuple(y), -1) @ wo

    return attention, some_x(2, 6, 11, 66), {"num_heads": 3}


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
def gains_on_unit_queries():
    torch.manual_seed(430)

    class Unit(nn.Module):
        def __init__(self, width, h, kv):
            super().__init__()
            self.d, self.norm, self.o = width // h, nn.LayerNorm(width), nn.Linear(width, width)
            self.q, self.kvs = nn.Linear(width, width), nn.Linear(width, 2 * kv * self.d)
            self.gain = nn.Parameter(1.0 + 0.3 * torch.rand(2, self.d))

        def unit(self, t, i):
            return t * torch.rsqrt(t.square().mean(-1, keepdim=True) + 1e-6) * self.gain[i]

        def forward(self, x):
            z = self.norm(x)
            q = self.unit(self.q(z).unflatten(-1, (-1, self.d)), 0).transpose(1, 2)
            k, v = self.kvs(z).unflatten(-1, (2, -1, self.d)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(turn(q), turn(self.unit(k, 1)), v, is_causal=True, enable_gqa=True)
            return x + self.o(y.transpose(1, 2).flatten(2))

    return Unit(24, 4, 2), some_x(2, 6, 24, 130), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def logarithms_before_shares():
    torch.manual_seed(431)

    class Logs(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.h, self.qkv, self.o = h, nn.Linear(d_in, 3 * h * d), nn.Linear(h * d, d_out)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.h, -1)).unbind(2)
            s = torch.einsum("bqhd,bkhd->bqkh", q, k) / math.sqrt(q.shape[-1])
            hide = later(x.shape[1], x.device)[..., None]
            s = F.log_softmax(s.masked_fill(hide, torch.finfo(s.dtype).min), 2)
            return self.o(torch.einsum("bqkh,bkhd->bqhd", s.softmax(2), v).flatten(2))

    return Logs(10, 14, 3, 5), some_x(3, 6, 10, 131), {"num_heads": 3}


@case(None)
def fourth_roots_on_both_sides():
    torch.manual_seed(432)

    class Roots(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.w, self.o, self.root = init(3, h, d_in, d), init(h, d, d_out), d**-0.25

        def forward(self, x):
            q, k, v = torch.einsum("bnc,rhcd->rhnbd", x, self.w)
            s = torch.einsum("hqbd,hkbd->bkqh", q * self.root, k * self.root)
            p = torch.where(later(x.shape[1], x.device).T[..., None], torch.finfo(s.dtype).min, s).softmax(1)
            return torch.einsum("bkqh,hkbd,hdo->bqo", p, v, self.o)

    return Roots(13, 9, 8, 16), some_x(2, 7, 13, 132), {"num_heads": 8}


@case(None)
def powers_of_two():
    torch.manual_seed(433)

    def share(s):
        e = torch.exp2((s - s.amax(-1, keepdim=True)) * math.log2(math.e))
        return e / e.sum(-1, keepdim=True)

    class Block(nn.Module):
        def __init__(self, width, h):
            super().__init__()
            self.h, self.norm = h, nn.RMSNorm(width)
            self.w = nn.Parameter(torch.randn(4, width, width) * width**-0.5)

        def forward(self, x):
            q, k, v = (self.norm(x) @ self.w[:3, None]).unflatten(-1, (-1, self.h)).permute(0, 1, 4, 2, 3)
            s = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(later(x.shape[1], x.device), -math.inf)
            return x + (share(s) @ v).permute(0, 2, 3, 1).flatten(2) @ self.w[3]

    return Block(20, 4), some_x(2, 5, 20, 133), {"num_heads": 4}


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
def a_window_of_three():
    torch.manual_seed(435)

    class Window(nn.Module):
        def __init__(self, d_in, d_out, h, d, width=3):
            super().__init__()
            self.h, self.width = h, width
            self.qkv, self.o = nn.Linear(d_in, 3 * h * d), nn.Linear(h * d, d_out)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.h, -1)).unbind(2)
            rows = []
            for i in range(x.shape[1]):
                near = slice(max(0, i + 1 - self.width), i + 1)
                s = torch.linalg.vecdot(q[:, i : i + 1], k[:, near]) * q.shape[-1] ** -0.5
                rows.append(torch.einsum("bkh,bkhd->bhd", s.softmax(1), v[:, near]).flatten(1))
            return self.o(torch.stack(rows, 1))

    at = torch.arange(7)
    return Window(12, 10, 3, 4), some_x(2, 7, 12, 135), {"num_heads": 3, "keep": at[:, None] - at < 3}


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
def everything_in_place_on_its_own_tensors():
    torch.manual_seed(445)

    class InPlace(nn.Module):
        def __init__(self, d_in, d_out, h, d):
            super().__init__()
            self.h, self.d, self.drop = h, d, nn.Dropout(0.1)
            self.qkv, self.o = nn.Linear(d_in, 3 * h * d), nn.Linear(h * d, d_out)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, self.h, self.d).permute(2, 3, 0, 1, 4).reshape(3, -1, n, self.d)
            s = torch.bmm(q / self.d**0.5, k.mT)
            s.masked_fill_(later(n, x.device), -math.inf)
            y = torch.bmm(self.drop(s.softmax(-1)), v).view(self.h, b, n, self.d)
            return self.o(y.permute(1, 2, 0, 3).reshape(b, n, -1))

    return InPlace(11, 16, 3, 6), some_x(1, 6, 11, 145), {"num_heads": 3}


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
