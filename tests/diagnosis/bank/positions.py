"""Rotary turns, biases by distance, norms of queries and keys, caps: right designs, then what goes wrong in them."""

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x
from .parts import Parts, angles, causal_softmax, turned

CASES, case = collector()

# ------------------------------------------------------------------------------------------------ right


class Turned(Parts):
    """Attention with a rotation for queries and one for keys."""

    def __init__(self, turn_q=turned, turn_k=None, **sizes):
        super().__init__(**sizes)
        self.turn_q, self.turn_k = turn_q, turn_k or turn_q

    def forward(self, x):
        q, k, v = self.qkv(x)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        return self.attend(self.scores(self.turn_q(q), self.turn_k(k)), v)


class Grid(Turned):
    """Half of each head is turned by a token's row in a grid three wide, and half by its column."""

    def __init__(self, row=lambda at: at // 3, column=lambda at: at % 3):
        def turn(t):
            at = torch.arange(t.shape[-2], device=t.device)
            table = angles(t.shape[-2], t.shape[-1] // 2, t)
            halves = zip(t.chunk(2, -1), (table[row(at)], table[column(at)]), strict=True)
            parts = [(*half.chunk(2, -1), angle.cos(), angle.sin()) for half, angle in halves]
            return torch.cat([one for a, b, cos, sin in parts for one in (a * cos - b * sin, b * cos + a * sin)], -1)

        super().__init__(turn, d_in=10, heads=2, head_dim=8)

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = self.scores(self.turn_q(q), self.turn_k(k)).softmax(-1)  # wrong
        return self.merge(weights @ v)


@case(None)
def queries_grow_as_keys_shrink():
    def grown(t, sign):
        at = torch.arange(t.shape[-2], dtype=t.dtype, device=t.device)[:, None]
        factor = torch.linspace(1.1, 1.3, t.shape[-1] // 2, dtype=t.dtype, device=t.device) ** (sign * at / 8)
        return turned(t) * torch.cat((factor, factor), -1)

    return (
        Turned(lambda t: grown(t, 1), lambda t: grown(t, -1), d_in=10, heads=2, head_dim=6),
        some_x(2, 6, 10),
        {"num_heads": 2},
    )


@case(None)
def rows_and_columns_of_an_image():
    def turn(t):
        at = torch.arange(t.shape[-2], device=t.device)
        parts = []
        for half, place in zip(t.chunk(2, -1), (at // 3, at % 3), strict=True):
            angle = angles(t.shape[-2], half.shape[-1], t)[place]
            a, b = half.chunk(2, -1)
            parts.append(torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1))
        return torch.cat(parts, -1)

    class Image(Turned):
        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.merge(self.scores(self.turn_q(q), self.turn_k(k)).softmax(-1) @ v)

    return (
        Image(turn, d_in=10, heads=2, head_dim=8),
        some_x(2, 6, 10),
        {"num_heads": 2, "causal": False, "lengths": [6]},
    )


def slopes(heads):
    return torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], dtype=torch.float64)


def distance(t, like):
    at = torch.arange(t, device=like.device, dtype=like.dtype)
    return at[:, None] - at[None, :]


@case(None)
def falls_to_both_sides():
    class Both(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            bias = slopes(self.heads).to(x)[:, None, None] * distance(x.shape[1], x).abs()
            return self.merge((self.scores(q, k) - bias).softmax(-1) @ v)

    return Both(d_in=10, heads=2, head_dim=6), some_x(2, 5, 10), {"num_heads": 2, "causal": False}


@case(None)
def ten_thousand_and_scaled():
    class Scaled(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            hidden = torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=x.dtype).triu(1)
            return self.merge(((q @ k.mT - 1e5 * hidden) * self.head_dim**-0.5).softmax(-1) @ v)

    return Scaled(d_in=11, heads=3, head_dim=6), some_x(2, 5, 11), {"num_heads": 3}


@case(None)
def normalised_over_all_heads_together():
    class Wide(Parts):
        def __init__(self):
            super().__init__(d_in=11, heads=3, head_dim=4)
            self.q_norm, self.k_norm = nn.RMSNorm(12), nn.RMSNorm(12)

        def forward(self, x):
            q, k = self.split(self.q_norm(self.q_proj(x))), self.split(self.k_norm(self.k_proj(x)))
            return self.attend(self.scores(q, k), self.split(self.v_proj(x)))

    return Wide(), some_x(2, 5, 11), {"num_heads": 3}


@case(None)
def layer_norm_of_heads_before_the_transpose():
    class Layer(Parts):
        def __init__(self):
            super().__init__(d_in=9, heads=3, head_dim=6)
            self.q_norm, self.k_norm = nn.LayerNorm(6), nn.LayerNorm(6)

        def forward(self, x):
            q, k, v = (one(x).unflatten(-1, (-1, 6)) for one in (self.q_proj, self.k_proj, self.v_proj))
            scores = torch.einsum("bqhd,bkhd->bhqk", self.q_norm(q), self.k_norm(k)) * 6**-0.5
            return self.merge(causal_softmax(scores) @ v.transpose(1, 2))

    return Layer(), some_x(2, 5, 9), {"num_heads": 3}


@case(None)
def capped_in_place_by_an_attribute():
    class Capped(Parts):
        def __init__(self):
            super().__init__(d_in=12, heads=4, head_dim=4, kv_heads=2)
            self.attn_logit_softcapping = 20.0

        def forward(self, x):
            q, k, v = self.qkv(x)
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            s = self.scores(turned(q), turned(k))
            s = (s / self.attn_logit_softcapping).tanh().mul(self.attn_logit_softcapping)
            return self.attend(s, v)

    return Capped(), some_x(2, 6, 12), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def cap_that_is_switched_off():
    class Off(Parts):
        def __init__(self, softcap=None):
            super().__init__(d_in=9, heads=3, head_dim=4)
            self.softcap = softcap

        def forward(self, x):
            q, k, v = self.qkv(x)
            s = self.scores(q, k)
            if self.softcap is not None:
                s = self.softcap * torch.tanh(s / self.softcap)
            return self.attend(s, v)

    return Off(), some_x(2, 5, 9), {"num_heads": 3}


# ------------------------------------------------------------------------------------------------ rotary-wrong-turn


@case("rotary-wrong-turn")
def conjugate_for_keys():
    class Complex(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            angle = angles(x.shape[1], self.head_dim, x)
            cis = torch.polar(torch.ones_like(angle), angle)
            q, k = (torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) for t in (q, k))
            q = torch.view_as_real(q * cis).flatten(-2)
            k = torch.view_as_real(k * cis.conj()).flatten(-2)  # wrong
            return self.attend(self.scores(q, k), v)

    return Complex(d_in=11, heads=3, head_dim=4), some_x(2, 6, 11), {"num_heads": 3}


@case("rotary-wrong-turn")
def rows_turn_both_halves():
    return Grid(column=lambda at: at // 3), some_x(2, 6, 10), {"num_heads": 2, "causal": False}


@case("rotary-wrong-turn")
def keys_one_position_late():
    class Late(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            k = turned(k, start=1)  # wrong
            return self.attend(self.scores(turned(q), k), v)

    return Late(d_in=10, heads=3, head_dim=6), some_x(2, 6, 10), {"num_heads": 3}


class LearnedAngles(Parts):
    """Learned frequencies of rows and of columns turn each pair of elements by the sum of two angles."""

    def __init__(self, column: int):
        super().__init__(d_in=10, heads=2, head_dim=6)
        self.rates, self.column = nn.Parameter(torch.rand(2, 3)), column

    def forward(self, x):
        q, k, v = self.qkv(x)
        at = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        rows = torch.outer(at // 3, self.rates[0])
        columns = torch.outer(at % 3, self.rates[self.column])  # wrong
        cos, sin = (rows + columns).cos(), (rows + columns).sin()
        halves = (t.chunk(2, -1) for t in (q, k))
        q, k = (torch.cat((a * cos - b * sin, b * cos + a * sin), -1) for a, b in halves)
        return self.merge(self.scores(q, k).softmax(-1) @ v)


@case("dead-parameter")
def learned_angles_of_rows_for_columns_too():
    return LearnedAngles(0), some_x(2, 6, 10), {"num_heads": 2, "causal": False}


# ------------------------------------------------------------------------------------------------ bias-wrong-sign


@case("bias-wrong-sign")
def subtracts_what_is_negative():
    class Subtracts(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            bias = -slopes(self.heads).to(x)[:, None, None] * distance(x.shape[1], x).abs()
            return self.merge((self.scores(q, k) - bias).softmax(-1) @ v)  # wrong

    return Subtracts(d_in=9, heads=3, head_dim=4), some_x(2, 6, 9), {"num_heads": 3, "causal": False}


@case("bias-wrong-sign")
def ramp_falls_from_the_first_key():
    class Ramp(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=6)
            ramp = -slopes(2).float()[:, None, None] * torch.arange(32.0)  # wrong
            self.register_buffer("ramp", ramp)

        def forward(self, x):
            q, k, v = self.qkv(x)
            scores = self.scores(q, k) + self.ramp[:, :, : x.shape[1]]  # wrong
            return self.attend(scores, v)

    return Ramp(), some_x(2, 5, 10), {"num_heads": 2}


# ------------------------------------------------------------------------------------------------ mask-scaled


@case("mask-scaled")
def fill_divided_with_the_scores():
    class Divided(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = (q @ k.mT).masked_fill(hidden, -30.0)
            return self.merge((scores / 16**0.5).softmax(-1) @ v)  # wrong

    return Divided(d_in=11, heads=2, head_dim=16), some_x(2, 5, 11), {"num_heads": 2}


@case("mask-scaled")
def alibi_before_the_scale():
    class Before(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            bias = -slopes(self.heads).to(x)[:, None, None] * distance(x.shape[1], x)
            scores = (q @ k.mT + bias) * self.head_dim**-0.5  # wrong
            return self.attend(scores, v)

    return Before(d_in=10, heads=4, head_dim=6), some_x(2, 7, 10), {"num_heads": 4}


# ------------------------------------------------------------------------------------------------ norm-wrong-axis


@case("norm-wrong-axis")
def unit_length_over_the_tokens():
    class Tokens(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            q, k = F.normalize(q, dim=2), F.normalize(k, dim=2)  # wrong
            return self.merge((q @ k.mT).softmax(-1) @ v)

    return Tokens(d_in=11, heads=2, head_dim=6), some_x(2, 7, 11), {"num_heads": 2, "causal": False}


@case("norm-wrong-axis")
def unit_length_over_the_heads_of_einsum():
    def attention(x, w_q, w_k, w_v):
        q, k, v = (torch.einsum("btc,chd->bthd", x, w) for w in (w_q, w_k, w_v))
        q = F.normalize(q, dim=2)  # wrong
        k = F.normalize(k, dim=2)  # wrong
        weights = causal_softmax(torch.einsum("bqhd,bkhd->bhqk", q, k))
        return torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)

    g = torch.Generator().manual_seed(5)
    w = [torch.randn(9, 3, 6, generator=g) / 3 for _ in range(3)]
    return lambda x: attention(x, *(one.to(x) for one in w)), some_x(2, 5, 9), {"num_heads": 3}


# ------------------------------------------------------------------------------------------------ softcap-missing


@case("softcap-missing")
def set_and_never_read():
    class Never(Parts):
        def __init__(self, softcap=50.0):
            super().__init__(d_in=10, heads=2, head_dim=6)
            self.softcap = softcap  # wrong

        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(q, k), v)

    return Never(), some_x(2, 7, 10), {"num_heads": 2}
