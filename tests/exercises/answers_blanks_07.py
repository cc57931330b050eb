"""Answers to the blanks of lesson 07, right and wrong, as learners write them."""

import torch

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


def rotate_in_place(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    a.copy_(a * cos - b * sin)
    b.copy_(b * cos + a * sin)
    return x


def positions_by_loop(real):
    positions = torch.zeros(real.shape, dtype=torch.long)
    for sample, row in enumerate(real.tolist()):
        count = 0
        for token, is_real in enumerate(row):
            positions[sample, token] = count
            count += is_real
    return positions


def positions_by_first(real):
    first = real.long().argmax(dim=1, keepdim=True)
    return (torch.arange(real.shape[1]) - first).clamp(min=0)


def positions_where_real(real):
    return torch.where(real, torch.cumsum(real, 1) - 1, 0)


def positions_without_clamp(real):
    return torch.arange(real.shape[1]) - real.long().argmax(dim=1, keepdim=True)


RIGHT = {
    "real_positions": [positions_by_loop, positions_by_first, positions_where_real],
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
    ],
}

WRONG = {
    "real_positions": [
        (positions_without_clamp, "it should be"),
        (lambda real: (real.double().cumsum(1) - 1).clamp(min=0), "it should be int64"),
        (lambda real: real.sum(1) - 1, "has the shape"),
    ],
    "rotary_table": [
        (lambda t, d, b: table(torch.arange(t) * speeds(d, b)), "stopped", "RuntimeError"),
    ],
    "rotate": [
        (rotate_in_place, "input-modified"),
        (lambda x, c, s: rotate_half(x) * torch.cat([s, s], -1), "At [0, 0, 0, 0] your result is"),
        (lambda x, c, s: x * c + rotate_half(x) * s, "stopped", "RuntimeError"),
    ],
}
