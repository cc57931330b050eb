"""Rotary turns, biases by distance, norms of queries and keys, caps: right designs, then what goes wrong in them."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x
from .parts import Parts, angles, causal_softmax, turned, turned_in_pairs

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


@case(None)
def halves_turned():
    return Turned(d_in=11, heads=3, head_dim=6), some_x(2, 5, 11), {"num_heads": 3}


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
def rows_and_columns_turn_a_half_each():
    return Grid(), some_x(2, 6, 10), {"num_heads": 2, "causal": False}


@case(None)
def frames_of_three_tokens_turned_by_their_time_alone():
    def turn(t):
        angle = angles(t.shape[-2], t.shape[-1], t)[torch.arange(t.shape[-2], device=t.device) // 3]
        a, b = t.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    class Frames(Turned):
        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.merge(self.scores(self.turn_q(q), self.turn_k(k)).softmax(-1) @ v)

    return Frames(turn, d_in=10, heads=2, head_dim=8), some_x(2, 6, 10), {"num_heads": 2, "causal": False}


@case(None)
def pairs_turned_with_few_key_heads():
    return (
        Turned(turned_in_pairs, d_in=12, heads=4, head_dim=8, kv_heads=2),
        some_x(2, 6, 12),
        {"num_heads": 4, "num_kv_heads": 2},
    )


@case(None)
def complex_numbers_turned():
    def turn(t):
        angle = angles(t.shape[-2], t.shape[-1], t).float()
        pairs = torch.view_as_complex(t.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).to(t.dtype)

    return Turned(turn, d_in=9, heads=2, head_dim=6), some_x(2, 7, 9), {"num_heads": 2}


@case(None)
def both_turned_backwards():
    def back(t):
        angle = angles(t.shape[-2], t.shape[-1], t)
        a, b = t.chunk(2, -1)
        return torch.cat((a * angle.cos() + b * angle.sin(), b * angle.cos() - a * angle.sin()), -1)

    return Turned(back, d_in=10, heads=3, head_dim=4), some_x(3, 5, 10), {"num_heads": 3}


@case(None)
def a_quarter_turned_with_a_larger_base():
    def turn(t):
        return torch.cat((turned(t[..., :2], base=5e5), t[..., 2:]), -1)

    return Turned(turn, d_in=10, heads=2, head_dim=8), some_x(2, 6, 10), {"num_heads": 2}


@case(None)
def positions_divided_by_four():
    def turn(t):
        angle = angles(t.shape[-2], t.shape[-1], t) / 4
        a, b = t.chunk(2, -1)
        return (
            torch.cat((a, b), -1) * torch.cat((angle, angle), -1).cos()
            + torch.cat((-b, a), -1) * torch.cat((angle, angle), -1).sin()
        )

    return Turned(turn, d_in=10, heads=3, head_dim=4), some_x(2, 5, 10), {"num_heads": 3}


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


@case(None)
def normalised_then_turned():
    class Normed(Parts):
        def __init__(self):
            super().__init__(d_in=11, heads=2, head_dim=6)
            self.q_norm, self.k_norm = nn.RMSNorm(6), nn.RMSNorm(6)

        def forward(self, x):
            q, k, v = self.qkv(x)
            q, k = turned(self.q_norm(q)), turned(self.k_norm(k))
            return self.attend(self.scores(q, k), v)

    return Normed(), some_x(2, 5, 11), {"num_heads": 2}


@case(None)
def turned_then_normalised_with_learned_weights():
    class Normed(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=3, head_dim=8)
            self.q_norm, self.k_norm = nn.RMSNorm(8), nn.RMSNorm(8)
            for norm in (self.q_norm, self.k_norm):
                nn.init.uniform_(norm.weight, 0.5, 2.0)

        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(self.q_norm(turned(q)), self.k_norm(turned(k))), v)

    return Normed(), some_x(2, 5, 10), {"num_heads": 3}


@case(None)
def learned_places_added_inside():
    class Places(Parts):
        def __init__(self):
            super().__init__(d_in=9, heads=3, head_dim=4)
            self.places = nn.Embedding(16, 9)

        def forward(self, x):
            q, k, v = self.qkv(x + self.places(torch.arange(x.shape[1], device=x.device)))
            return self.attend(self.scores(q, k), v)

    return Places(), some_x(2, 6, 9), {"num_heads": 3}


@case(None)
def sines_added_and_normalised():
    class Sines(Parts):
        def __init__(self):
            super().__init__(d_in=8, heads=2, head_dim=6)
            self.norm = nn.LayerNorm(8)

        def forward(self, x):
            angle = angles(x.shape[1], x.shape[2], x)
            q, k, v = self.qkv(self.norm(x + torch.cat((angle.sin(), angle.cos()), -1)))
            return self.attend(self.scores(q, k), v)

    return Sines(), some_x(2, 5, 8), {"num_heads": 2}


def slopes(heads):
    return torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], dtype=torch.float64)


def distance(t, like):
    at = torch.arange(t, device=like.device, dtype=like.dtype)
    return at[:, None] - at[None, :]


@case(None)
def falls_with_distance():
    class Falls(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            bias = -slopes(self.heads).to(x)[:, None, None] * distance(x.shape[1], x).abs()
            return self.attend(self.scores(q, k) + bias, v)

    return Falls(d_in=11, heads=4, head_dim=6), some_x(2, 7, 11), {"num_heads": 4}


@case(None)
def counts_from_the_first_key():
    class Counts(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            ramp = (
                slopes(self.heads).to(x)[:, None, None]
                * torch.arange(x.shape[1], dtype=x.dtype, device=x.device)[None, None, :]
            )
            b, t = x.shape[:2]
            scores = ramp.repeat(b, 1, 1).baddbmm(q.flatten(0, 1), k.flatten(0, 1).mT, alpha=self.head_dim**-0.5)
            return self.attend(scores.view(b, self.heads, t, t), v)

    return Counts(d_in=9, heads=3, head_dim=4), some_x(2, 6, 9), {"num_heads": 3}


@case(None)
def falls_to_both_sides():
    class Both(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            bias = slopes(self.heads).to(x)[:, None, None] * distance(x.shape[1], x).abs()
            return self.merge((self.scores(q, k) - bias).softmax(-1) @ v)

    return Both(d_in=10, heads=2, head_dim=6), some_x(2, 5, 10), {"num_heads": 2, "causal": False}


@case(None)
def table_of_distances():
    class Table(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=3, head_dim=4)
            self.table = nn.Embedding(32, 3)

        def forward(self, x):
            q, k, v = self.qkv(x)
            bias = self.table(distance(x.shape[1], x).long() + 15).permute(2, 0, 1)
            return self.attend(self.scores(q, k) + bias, v)

    return Table(), some_x(2, 6, 10), {"num_heads": 3}


@case(None)
def table_that_is_scaled_with_the_scores():
    class Table(Parts):
        def __init__(self):
            super().__init__(d_in=12, heads=2, head_dim=6)
            self.table = nn.Parameter(torch.randn(2, 31))

        def forward(self, x):
            q, k, v = self.qkv(x)
            bias = self.table[:, distance(x.shape[1], x).long() + 15]
            return self.attend((q @ k.mT + bias) / math.sqrt(self.head_dim), v)

    return Table(), some_x(2, 7, 12), {"num_heads": 2}


@case(None)
def ten_thousand_and_scaled():
    class Scaled(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            hidden = torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=x.dtype).triu(1)
            return self.merge(((q @ k.mT - 1e5 * hidden) * self.head_dim**-0.5).softmax(-1) @ v)

    return Scaled(d_in=11, heads=3, head_dim=6), some_x(2, 5, 11), {"num_heads": 3}


@case(None)
def learned_slopes():
    class Learned(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=4)
            self.slope = nn.Parameter(torch.tensor([0.3, -0.2]))

        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(q, k) + self.slope[:, None, None] * distance(x.shape[1], x), v)

    return Learned(), some_x(2, 6, 10), {"num_heads": 2}


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
def unit_length_with_a_temperature():
    class Unit(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=6)
            self.temperature = nn.Parameter(torch.full((2, 1, 1), 4.0))

        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.temperature, v)

    return Unit(), some_x(2, 6, 10), {"num_heads": 2}


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
def rows_of_x_normalised_first():
    class First(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=4)
            self.norm = nn.RMSNorm(10)

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x))
            return self.attend(self.scores(q, k), v)

    return First(), some_x(2, 6, 10), {"num_heads": 2}


@case(None)
def capped_before_the_mask():
    class Capped(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(5.0 * torch.tanh(self.scores(q, k) / 5.0), v)

    return Capped(d_in=10, heads=3, head_dim=6), some_x(2, 5, 10), {"num_heads": 3}


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
def keys_turned_the_other_way():
    def turn(t, sign):
        angle = angles(t.shape[-2], t.shape[-1], t) * sign
        a, b = t.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    class Opposite(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            q = turn(q, 1)
            k = turn(k, -1)  # wrong
            return self.attend(self.scores(q, k), v)

    return Opposite(d_in=10, heads=3, head_dim=4), some_x(2, 5, 10), {"num_heads": 3}


@case("rotary-wrong-turn")
def halves_without_a_minus():
    def rotate_half(t):
        a, b = t.chunk(2, -1)
        return torch.cat((b, a), -1)  # wrong

    def turn(t):
        angle = angles(t.shape[-2], t.shape[-1], t)
        cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
        return t * cos + rotate_half(t) * sin  # wrong

    return Turned(turn, d_in=11, heads=2, head_dim=6), some_x(2, 6, 11), {"num_heads": 2}


@case("rotary-wrong-turn")
def table_in_pairs_for_halves():
    class Mixed(Parts):
        def __init__(self):
            super().__init__(d_in=12, heads=2, head_dim=8)
            angle = angles(16, 8, torch.zeros(1)).repeat_interleave(2, -1)  # wrong
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def turn(self, t):
            a, b = t.chunk(2, -1)
            cos, sin = self.cos[: t.shape[-2]], self.sin[: t.shape[-2]]
            return t * cos + torch.cat((-b, a), -1) * sin  # wrong

        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(self.turn(q), self.turn(k)), v)

    return Mixed(), some_x(2, 5, 12), {"num_heads": 2}


@case("rotary-wrong-turn")
def two_bases():
    class Bases(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            q = turned_in_pairs(q, base=10000.0)  # wrong
            k = turned_in_pairs(k, base=500.0)  # wrong
            return self.attend(self.scores(q, k), v)

    return Bases(d_in=9, heads=3, head_dim=8), some_x(2, 7, 9), {"num_heads": 3}


@case("rotary-wrong-turn")
def cosine_twice():
    def turn(q, k):
        angle = angles(q.shape[-2], q.shape[-1], q)
        cos = sin = angle.cos()  # wrong
        out = []
        for t in (q, k):
            a, b = t[..., ::2], t[..., 1::2]
            out.append(torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2))  # wrong
        return out

    class Twice(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            q, k = turn(q, k)
            weights = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.merge(weights)

    return Twice(d_in=10, heads=2, head_dim=6), some_x(2, 5, 10), {"num_heads": 2}


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
def second_half_left_as_it_was():
    def apply(t, cos, sin):
        a, b = t.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b), -1)  # wrong

    def forward(x, w):
        q, k, v = (torch.einsum("btc,chd->bhtd", x, m) for m in w)
        angle = angles(x.shape[1], q.shape[-1], x)
        q, k = apply(q, angle.cos(), angle.sin()), apply(k, angle.cos(), angle.sin())
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
        return torch.einsum("bhqk,bhkd->bqhd", causal_softmax(scores), v).flatten(2)

    w = torch.randn(3, 9, 2, 6, generator=torch.Generator().manual_seed(3)) / 3
    return lambda x: forward(x, w.to(x)), some_x(2, 5, 9), {"num_heads": 2}


@case("rotary-wrong-turn")
def squares_of_positions():
    def turn(t):
        at = torch.arange(t.shape[-2], dtype=t.dtype, device=t.device) ** 2  # wrong
        angle = torch.outer(
            at, 100.0 ** (-torch.arange(0, t.shape[-1], 2, dtype=t.dtype, device=t.device) / t.shape[-1])
        )
        a, b = t.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)  # wrong

    return Turned(turn, d_in=10, heads=4, head_dim=6, kv_heads=2), some_x(2, 7, 10), {"num_heads": 4, "num_kv_heads": 2}


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


@case("rotary-wrong-turn")
def table_cut_later_for_queries():
    class Cut(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            angle = angles(20, self.head_dim, x)
            table = torch.polar(torch.ones_like(angle), angle)
            q, k = (torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) for t in (q, k))
            q = q * table[2:][: x.shape[1]]  # wrong
            k = k * table[: x.shape[1]]
            q, k = (torch.view_as_real(t).flatten(-2) for t in (q, k))
            return self.attend(self.scores(q, k), v)

    return Cut(d_in=12, heads=2, head_dim=4), some_x(2, 7, 12), {"num_heads": 2}


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


@case(None)
def learned_angles_of_both_axes():
    return LearnedAngles(1), some_x(2, 6, 10), {"num_heads": 2, "causal": False}


@case("dead-parameter")
def learned_angles_of_rows_for_columns_too():
    return LearnedAngles(0), some_x(2, 6, 10), {"num_heads": 2, "causal": False}


# ------------------------------------------------------------------------------------------------ bias-wrong-sign


@case("bias-wrong-sign")
def rises_with_distance():
    class Rises(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            bias = slopes(self.heads).to(x)[:, None, None] * distance(x.shape[1], x)  # wrong
            return self.attend(self.scores(q, k) + bias, v)  # wrong

    return Rises(d_in=11, heads=4, head_dim=6), some_x(2, 7, 11), {"num_heads": 4}


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


@case("bias-wrong-sign")
def mask_with_rising_numbers_given_to_the_kernel():
    class Kernel(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            t = x.shape[1]
            bias = slopes(self.heads).to(x)[:, None, None] * distance(t, x)  # wrong
            bias = bias.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), -torch.inf)
            return self.merge(F.scaled_dot_product_attention(q, k, v, attn_mask=bias))  # wrong

    return Kernel(d_in=12, heads=3, head_dim=4), some_x(2, 6, 12), {"num_heads": 3}


@case("bias-wrong-sign")
def one_loop_per_head():
    class Loop(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            rows = []
            for h in range(self.heads):
                s = q[:, h] @ k[:, h].mT / self.head_dim**0.5
                s = s + distance(x.shape[1], x) * 0.5 ** (h + 1)  # wrong
                rows.append(causal_softmax(s) @ v[:, h])
            return self.o_proj(torch.cat(rows, -1))

    return Loop(d_in=9, heads=2, head_dim=6), some_x(2, 7, 9), {"num_heads": 2}


@case("bias-wrong-sign")
def key_minus_query_and_a_minus():
    class Minus(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            at = torch.arange(x.shape[1], device=x.device)
            relative = (at[None, :] - at[:, None]).to(x.dtype)
            alibi = torch.einsum("h,qk->hqk", -slopes(self.heads).to(x), relative)  # wrong
            return self.attend(torch.einsum("bhqd,bhkd->bhqk", q, k) * self.head_dim**-0.5 + alibi, v)  # wrong

    return Minus(d_in=10, heads=4, head_dim=4), some_x(2, 6, 10), {"num_heads": 4}


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


@case("mask-scaled")
def added_before_the_temperature():
    class Temperature(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            mask = torch.zeros(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device).masked_fill(
                torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1), -20.0
            )
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) + mask
            scores = scores.div(math.sqrt(self.head_dim))  # wrong
            return self.merge(torch.softmax(scores, -1) @ v)

    return Temperature(d_in=9, heads=3, head_dim=9), some_x(2, 6, 9), {"num_heads": 3}


@case("mask-scaled")
def ramp_in_the_buffer_is_scaled():
    class Buffer(Parts):
        def __init__(self):
            super().__init__(d_in=12, heads=3, head_dim=4)
            self.register_buffer("ramp", slopes(3).float()[:, None, None] * torch.arange(32.0))

        def forward(self, x):
            q, k, v = self.qkv(x)
            s = q @ k.mT + self.ramp[..., : x.shape[1]]
            s = s / self.head_dim**0.5  # wrong
            return self.attend(s, v)

    return Buffer(), some_x(2, 5, 12), {"num_heads": 3}


@case("mask-scaled")
def where_and_then_scaled():
    class Where(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            s = torch.matmul(q, k.transpose(2, 3))
            keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            s = torch.where(keep, s, -25.0)
            s *= self.head_dim**-0.5  # wrong
            return self.merge(s.softmax(dim=-1) @ v)

    return Where(d_in=10, heads=2, head_dim=12), some_x(2, 6, 10), {"num_heads": 2}


@case("mask-scaled")
def added_in_a_loop_over_heads():
    class Loop(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            out = []
            for h in range(self.heads):
                near = -distance(x.shape[1], x) * 0.5 ** (h + 1)
                s = (q[:, h] @ k[:, h].mT + near) / math.sqrt(self.head_dim)  # wrong
                out.append(causal_softmax(s) @ v[:, h])
            return self.o_proj(torch.cat(out, -1))

    return Loop(d_in=11, heads=3, head_dim=4), some_x(2, 5, 11), {"num_heads": 3}


# ------------------------------------------------------------------------------------------------ norm-wrong-axis


@case("norm-wrong-axis")
def mean_square_over_the_heads():
    class Heads(Parts):
        def norm(self, t):
            return t * torch.rsqrt(t.square().mean(1, keepdim=True) + 1e-6)  # wrong

        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(self.norm(q), self.norm(k)), v)

    return Heads(d_in=10, heads=3, head_dim=4), some_x(2, 5, 10), {"num_heads": 3}


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


@case("norm-wrong-axis")
def layer_norm_after_a_transpose():
    class Layer(Parts):
        def __init__(self):
            super().__init__(d_in=12, heads=4, head_dim=6)
            self.q_norm, self.k_norm = nn.LayerNorm(4), nn.LayerNorm(4)

        def forward(self, x):
            q, k, v = (one(x).unflatten(-1, (4, 6)) for one in (self.q_proj, self.k_proj, self.v_proj))
            q = self.q_norm(q.transpose(2, 3)).transpose(2, 3)  # wrong
            k = self.k_norm(k.transpose(2, 3)).transpose(2, 3)  # wrong
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            return self.attend(self.scores(q, k), v)

    return Layer(), some_x(2, 5, 12), {"num_heads": 4}


@case("norm-wrong-axis")
def standard_deviation_over_the_tokens():
    class Deviation(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            k = (k - k.mean(dim=2, keepdim=True)) / (k.std(dim=2, keepdim=True) + 1e-5)  # wrong
            return self.attend(self.scores(q, k), v)

    return Deviation(d_in=10, heads=3, head_dim=4), some_x(2, 6, 10), {"num_heads": 3}


@case("norm-wrong-axis")
def root_mean_square_of_a_module_over_tokens():
    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, t):
            size = t.pow(2).mean(-2, keepdim=True)  # wrong
            return t * torch.rsqrt(size + 1e-6) * self.weight

    class Normed(Parts):
        def __init__(self):
            super().__init__(d_in=9, heads=2, head_dim=6)
            self.q_norm, self.k_norm = Norm(6), Norm(6)

        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(self.q_norm(q), self.k_norm(k)), v)

    return Normed(), some_x(2, 5, 9), {"num_heads": 2}


# ------------------------------------------------------------------------------------------------ softcap-missing


@case("softcap-missing")
def mask_before_the_cap():
    class Before(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = self.scores(q, k).masked_fill(hidden, -torch.inf)
            scores = 5.0 * torch.tanh(scores / 5.0)  # wrong
            return self.merge(scores.softmax(-1) @ v)

    return Before(d_in=10, heads=3, head_dim=6), some_x(2, 5, 10), {"num_heads": 3}


@case("softcap-missing")
def not_multiplied_back():
    class Back(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            scores = torch.tanh(self.scores(q, k) / 20.0)  # wrong
            return self.attend(scores, v)

    return Back(d_in=11, heads=2, head_dim=4), some_x(2, 6, 11), {"num_heads": 2}


@case("softcap-missing")
def not_divided_first():
    class First(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.head_dim**-0.5
            scores = scores.tanh() * 30.0  # wrong
            return self.attend(scores, v)

    return First(d_in=9, heads=3, head_dim=4), some_x(2, 5, 9), {"num_heads": 3}


@case("softcap-missing")
def additive_mask_before_the_cap():
    class Additive(Parts):
        def __init__(self):
            super().__init__(d_in=12, heads=4, head_dim=4, kv_heads=2)
            self.softcap = 8.0

        def forward(self, x):
            q, k, v = self.qkv(x)
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            scores = self.scores(turned(q), turned(k)) + torch.full((x.shape[1],) * 2, -1e9).triu(1).to(x)
            scores = scores / self.softcap
            scores = torch.tanh(scores)  # wrong
            scores = scores * self.softcap
            return self.merge(scores.softmax(-1) @ v)

    return Additive(), some_x(2, 6, 12), {"num_heads": 4, "num_kv_heads": 2}


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


@case("softcap-missing")
def multiplied_back_by_another_number():
    class Other(Parts):
        def __init__(self):
            super().__init__(d_in=9, heads=3, head_dim=8)
            self.cap, self.factor = 15.0, 1.5

        def forward(self, x):
            q, k, v = self.qkv(x)
            s = self.scores(q, k) / self.cap
            s = self.factor * s.tanh()  # wrong
            return self.attend(s, v)

    return Other(), some_x(2, 5, 9), {"num_heads": 3}
