"""Plain functions with folded heads, and modules inside modules: right code first, then what goes wrong."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


def weights(d, width, count=4, seed=9):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(d, width, generator=g) / d**0.5 for _ in range(count - 1)] + [
        torch.randn(width, d, generator=g)
    ]


def function(body, d=10, heads=2, hd=6, tokens=6, **options):
    """A function of x: body(q, k, v, x) gives the heads' results from (b * h, t, hd)."""
    w = weights(d, heads * hd)

    def attention(x):
        b, t, _ = x.shape
        q, k, v = ((x @ one.to(x)).view(b, t, heads, hd).permute(0, 2, 1, 3).reshape(b * heads, t, hd) for one in w[:3])
        y = body(q, k, v, x)
        return y.view(b, heads, t, hd).permute(0, 2, 1, 3).reshape(b, t, heads * hd) @ w[3].to(x)

    return attention, some_x(2, tokens, d), {"num_heads": heads} | options


def dots(q, k):
    return torch.baddbmm(
        q.new_zeros(len(q), q.shape[1], k.shape[1]), q, k.transpose(1, 2), beta=0, alpha=q.shape[-1] ** -0.5
    )


def future(s):
    return torch.ones(s.shape[-2:], device=s.device).triu(1 + s.shape[-1] - s.shape[-2]).bool()


def rest(s, v):
    return torch.bmm(s.masked_fill(future(s), -math.inf).softmax(2), v)


def cos_sin(t, d, like, base=1000.0):
    a = torch.arange(t, device=like.device).to(like)[:, None] / base ** (
        torch.arange(d // 2, device=like.device).to(like) / (d // 2)
    )
    return torch.cat([a.cos(), a.cos()], 1), torch.cat([a.sin(), a.sin()], 1)


def half(u):
    return torch.cat([-u[..., u.shape[-1] // 2 :], u[..., : u.shape[-1] // 2]], -1)


@case(None)
def f_turned_grid_of_two_rows():
    def body(q, k, v, x):
        i = torch.arange(x.shape[1], device=x.device)
        c, s = cos_sin(8, q.shape[-1] // 2, q)
        parts = []
        for u in (q, k):
            a, b = u.chunk(2, -1)
            at, on = i // 4, i % 4
            parts.append(torch.cat([a * c[at] + half(a) * s[at], b * c[on] + half(b) * s[on]], -1))
        return torch.bmm(dots(*parts).softmax(2), v)

    return function(body, hd=8, tokens=8, causal=False)


@case(None)
def f_steps_of_a_bias():
    def body(q, k, v, x):
        i = torch.arange(x.shape[1], device=x.device)
        near = ((i[:, None] - i).abs() <= 1).to(x.dtype)
        return rest(dots(q, k) + near, v)

    return function(body)


@case(None)
def f_window():
    def body(q, k, v, x):
        s = dots(q, k)
        return rest(s.masked_fill(torch.ones_like(s).tril(-3).bool(), -math.inf), v)

    return function(body, tokens=8, window=3)


@case(None)
def f_window_by_slices():
    def body(q, k, v, x):
        ys = []
        for t in range(x.shape[1]):
            lo = max(0, t + 1 - 3)
            ys.append(torch.bmm(dots(q[:, t : t + 1], k[:, lo : t + 1]).softmax(2), v[:, lo : t + 1]))
        return torch.cat(ys, 1)

    return function(body, tokens=6, window=3)


@case(None)
def f_keys_and_values_first():
    def body(q, k, v, x):
        s = torch.bmm(k, q.mT) * q.shape[-1] ** -0.5
        return torch.bmm(v.mT, s.masked_fill(future(s).mT, -math.inf).softmax(1)).mT

    return function(body)


class Inner(nn.Module):
    def __init__(self, hd):
        super().__init__()
        self.hd = hd

    def forward(self, q, k, v, mask=None, need_weights=False):
        s = q @ k.mT / self.hd**0.5
        if mask is not None:
            s = s.masked_fill(mask, -1e9)
        w = s.softmax(-1)
        return (w @ v, w) if need_weights else w @ v


class Outer(nn.Module):
    def __init__(self, d=12, heads=3, inner=Inner):
        super().__init__()
        torch.manual_seed(4)
        self.heads = heads
        self.to_q, self.to_kv, self.to_out = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.inner = inner(d // heads)

    def cut(self, u):
        return u.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def three(self, x):
        return self.cut(self.to_q(x)), *(self.cut(u) for u in self.to_kv(x).chunk(2, -1))

    def forward(self, x):
        q, k, v = self.three(x)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.to_out(self.inner(q, k, v, mask).transpose(1, 2).flatten(2))


@case(None)
def m_with_weights_on_request():
    class A(Outer):
        def forward(self, x, return_weights=False):
            q, k, v = self.three(x)
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            y = self.inner(q, k, v, mask, return_weights)
            y, w = y if return_weights else (y, None)
            y = self.to_out(y.transpose(1, 2).flatten(2))
            return (y, w) if return_weights else y

    return A(), some_x(2, 5, 12), {"num_heads": 3}


# ------------------------------------------------------------------------------------------------ wrong


@case("rotary-wrong-turn")
def f_half_of_queries_misses_the_minus():
    def body(q, k, v, x):
        c, s = cos_sin(x.shape[1], q.shape[-1], q)
        q = q * c + q.roll(q.shape[-1] // 2, -1) * s  # wrong
        return rest(dots(q, k * c + half(k) * s), v)

    return function(body, tokens=5)


@case("norm-wrong-axis")
def f_unit_length_over_tokens():
    def body(q, k, v, x):
        q = F.normalize(q, dim=1)  # wrong
        k = F.normalize(k, dim=1)  # wrong
        return rest(10 * torch.bmm(q, k.mT), v)

    return function(body)


@case("softcap-missing")
def f_cap_of_masked():
    def body(q, k, v, x):
        s = dots(q, k).masked_fill(future(q @ k.mT), -math.inf)
        s = torch.tanh(s / 4) * 4  # wrong
        return torch.bmm(s.softmax(2), v)

    return function(body)


@case("softcap-missing")
def f_cap_not_restored():
    return function(lambda q, k, v, x: rest(torch.tanh(dots(q, k) / 4), v))


@case("window-off-by-one")
def f_window_one_wider():
    def body(q, k, v, x):
        s = dots(q, k)
        far = torch.ones_like(s).tril(-4).bool()  # wrong
        return rest(s.masked_fill(far, -math.inf), v)

    return function(body, tokens=8, window=3)


@case("mask-lost-on-option")
def m_weights_without_mask():
    class A(Outer):
        def forward(self, x, return_weights=False):
            q, k, v = self.three(x)
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            y = self.inner(q, k, v, None if return_weights else mask)  # wrong
            y = self.to_out(y.transpose(1, 2).flatten(2))
            return (y, None) if return_weights else y

    return A(), some_x(2, 5, 12), {"num_heads": 3}


@case("gate-unused")
def m_gate_forgotten():
    class A(Outer):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(12, 12)

        def forward(self, x):
            y = super().forward(x)
            y * torch.sigmoid(self.gate(x))  # wrong
            return y  # wrong

    return A(), some_x(2, 6, 12), {"num_heads": 3}


@case("paths-differ")
def m_kernel_without_scale():
    class A(Outer):
        def __init__(self):
            super().__init__()
            self.use_sdpa = False

        def forward(self, x):
            q, k, v = self.three(x)
            if not self.use_sdpa:
                return super().forward(x)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.1)  # wrong
            return self.to_out(y.transpose(1, 2).flatten(2))

    return A(), some_x(2, 5, 12), {"num_heads": 3}
