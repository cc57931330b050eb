"""Answers to the blanks of lesson 07, right and wrong, as learners write them."""

import torch
from torch import nn

from course_lib.attention import rotary_table as library_table


def table_by_loop(num_tokens, head_dim, base):
    cos = torch.zeros(num_tokens, head_dim // 2)
    sin = torch.zeros(num_tokens, head_dim // 2)
    for position in range(num_tokens):
        for pair in range(head_dim // 2):
            angle = torch.tensor(position * base ** (-2 * pair / head_dim))
            cos[position, pair], sin[position, pair] = angle.cos(), angle.sin()
    return cos, sin


def table_by_outer(num_tokens, head_dim, base):
    speed = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(num_tokens).float(), speed)
    return [torch.cos(angles), torch.sin(angles)]


def table_by_complex(num_tokens, head_dim, base):
    speed = base ** -(torch.arange(head_dim // 2, dtype=torch.float64) / (head_dim / 2))
    turned = torch.polar(
        torch.ones(num_tokens, len(speed)).double(), torch.outer(torch.arange(num_tokens).double(), speed)
    )
    return turned.real, turned.imag


def table(angles):
    return angles.cos(), angles.sin()


def speeds(head_dim, base):
    return base ** (-torch.arange(0, head_dim, 2) / head_dim)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rotate_like_transformers(x, cos, sin):
    cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
    return x * cos + rotate_half(x) * sin


def rotate_by_loop(x, cos, sin):
    rotated = torch.zeros_like(x)
    pairs = x.shape[-1] // 2
    for i in range(pairs):
        a, b = x[..., i], x[..., i + pairs]
        rotated[..., i] = a * cos[..., i] - b * sin[..., i]
        rotated[..., i + pairs] = b * cos[..., i] + a * sin[..., i]
    return rotated


def rotate_by_complex(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    turned = torch.complex(a, b) * torch.complex(cos, sin)
    return torch.cat([turned.real, turned.imag], dim=-1)


def rotate_by_unflatten(x, cos, sin):
    a, b = x.unflatten(-1, (2, -1)).unbind(-2)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-2).flatten(-2)


def rotate_by_matrix(x, cos, sin):
    pairs = cos.shape[1]
    i = torch.arange(pairs)
    matrix = x.new_zeros(len(cos), 2 * pairs, 2 * pairs)
    matrix[:, i, i] = matrix[:, i + pairs, i + pairs] = cos
    matrix[:, i, i + pairs], matrix[:, i + pairs, i] = -sin, sin
    return torch.einsum("tij,bhtj->bhti", matrix, x)


class Rotary(nn.Module):
    """Keys and values are copied for the query heads that share them."""

    def __init__(self, d_in, d_out, num_heads, num_kv_heads, base=100.0, positions=range(512)):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = num_heads, num_kv_heads, d_out // num_heads
        self.base, self.positions = base, torch.tensor(positions)
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def turned(self, x):
        at = self.positions[: x.shape[2]]
        cos, sin = (one[at].to(x) for one in library_table(int(at.max()) + 1, self.head_dim, rope_theta=self.base))
        return rotate_like_transformers(x, cos, sin)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q = self.turned(self.q_proj(x).view(batch, tokens, self.heads, -1).transpose(1, 2))
        k = self.turned(self.k_proj(x).view(batch, tokens, self.kv_heads, -1).transpose(1, 2))
        v = self.v_proj(x).view(batch, tokens, self.kv_heads, -1).transpose(1, 2)
        k, v = (one.repeat_interleave(self.heads // self.kv_heads, dim=1) for one in (k, v))
        context = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(context.transpose(1, 2).reshape(batch, tokens, -1))


class RotaryByComplexNumbers(Rotary):
    def turned(self, x):
        speed = self.base ** (-torch.arange(0, self.head_dim, 2, dtype=x.dtype) / self.head_dim)
        angle = self.positions[: x.shape[2], None].to(x) * speed
        first, second = x.chunk(2, dim=-1)
        turned = torch.complex(first, second) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([turned.real, turned.imag], dim=-1)


class RotaryInPairs(Rotary):
    """Pairs are neighbours."""

    def turned(self, x):
        order = torch.arange(self.head_dim).view(-1, 2).T.flatten()
        return super().turned(x[..., order])[..., order.argsort()]


class RotaryFromOne(Rotary):
    """A query stands one position further than its key."""

    def turned(self, x):
        given = self.positions
        self.positions = given + int(x.shape[1] == self.heads)
        turned = super().turned(x)
        self.positions = given
        return turned


class RotaryFromZero(Rotary):
    """It doesn't look at the positions that it is given."""

    def __init__(self, *sizes, base=100.0, positions=None):
        super().__init__(*sizes[:4], base=sizes[4] if len(sizes) > 4 else base)


class RotaryQueriesMoved(Rotary):
    """The positions are those of the queries alone."""

    def turned(self, x):
        given = self.positions
        self.positions = given if x.shape[1] == self.heads else torch.arange(512)
        turned = super().turned(x)
        self.positions = given
        return turned


class RotaryOtherWay(Rotary):
    """It rotates by the negative angles."""

    def turned(self, x):
        first, second = x.chunk(2, dim=-1)
        return super().turned(torch.cat([second, first], dim=-1)).roll(self.head_dim // 2, -1)


class RotaryMovedToZero(Rotary):
    """Only distances count, so it takes the first position from all of them."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.positions = self.positions - self.positions[0]


class RotaryTiled(Rotary):
    """Query heads take turns with the kv heads: 0, 1, 0, 1."""

    def forward(self, x):
        batch, tokens, _ = x.shape
        q = self.turned(self.q_proj(x).view(batch, tokens, self.heads, -1).transpose(1, 2))
        k = self.turned(self.k_proj(x).view(batch, tokens, self.kv_heads, -1).transpose(1, 2))
        v = self.v_proj(x).view(batch, tokens, self.kv_heads, -1).transpose(1, 2)
        k, v = (one.repeat(1, self.heads // self.kv_heads, 1, 1) for one in (k, v))
        context = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(context.transpose(1, 2).reshape(batch, tokens, -1))


RIGHT = {
    "MyRotaryAttention": [Rotary, RotaryByComplexNumbers, RotaryMovedToZero],
    "rotary_table": [
        table_by_loop,
        table_by_outer,
        table_by_complex,
        lambda t, d, b: library_table(t, d, rope_theta=b),
    ],
    "rotate": [
        rotate_like_transformers,
        rotate_by_loop,
        rotate_by_complex,
        rotate_by_unflatten,
        rotate_by_matrix,
    ],
}

WRONG = {
    "MyRotaryAttention": [
        (RotaryInPairs, "rotates pairs of neighbours"),
        (RotaryFromOne, "rotary-wrong-turn"),
        (RotaryTiled, "kv-heads-tiled"),
        (RotaryFromZero, "always at 0, 1, 2", "Where do you use `positions`?"),
        (RotaryQueriesMoved, "only the queries are at `positions`"),
        (RotaryOtherWay, "by the negative angles"),
    ],
    "rotary_table": [
        (lambda t, d, b: table(torch.arange(t) * speeds(d, b)), "stopped", "RuntimeError"),
    ],
    "rotate": [
        (lambda x, c, s: rotate_half(x) * torch.cat([s, s], -1), "At [0, 0, 0, 0] your result is"),
    ],
}
