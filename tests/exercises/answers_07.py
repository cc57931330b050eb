"""Answers to the exercises of lesson 07, right and wrong, as learners write them."""

import math

import torch

from course_lib.attention import rotary_table as library_table


def angles_of(num_tokens, speed, first=0):
    return torch.arange(first, num_tokens + first)[:, None] * speed


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


def rotate_neighbours(x, cos, sin):
    rotated = torch.empty_like(x)
    rotated[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    rotated[..., 1::2] = x[..., 1::2] * cos + x[..., ::2] * sin
    return rotated


def distances_by_rotating_both(query, key, num_distances, base):
    cos, sin = library_table(num_distances + 5, len(query), rope_theta=base)
    scores = []
    for distance in range(num_distances):
        q = rotate_like_transformers(query, cos[distance + 3], sin[distance + 3])
        k = rotate_like_transformers(key, cos[3], sin[3])
        scores.append(q @ k)
    return torch.stack(scores)


def distances_by_formula(query, key, num_distances, base):
    (a, b), (c, d) = query.chunk(2), key.chunk(2)
    angle = angles_of(num_distances, speeds(len(query), base).double())
    return angle.cos() @ (a * c + b * d) + angle.sin() @ (a * d - b * c)


def distances_by_diagonal(query, key, num_distances, base):
    cos, sin = table(angles_of(num_distances, speeds(len(query), base)))
    q = rotate_like_transformers(query.expand(num_distances, -1), cos, sin)
    k = rotate_like_transformers(key.expand(num_distances, -1), cos, sin)
    return (q @ k.T)[:, 0]


def distances_backwards(query, key, num_distances, base):
    cos, sin = table(-angles_of(num_distances, speeds(len(query), base)))
    return torch.stack([key @ rotate_like_transformers(query, c, s) for c, s in zip(cos, sin, strict=True)])


def neighbours_by_loop(x, cos, sin):
    rotated = torch.zeros_like(x)
    for i in range(x.shape[-1] // 2):
        a, b = x[..., 2 * i], x[..., 2 * i + 1]
        rotated[..., 2 * i] = a * cos[:, i] - b * sin[:, i]
        rotated[..., 2 * i + 1] = b * cos[:, i] + a * sin[:, i]
    return rotated


def neighbours_by_complex(x, cos, sin):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


def neighbours_by_repeat(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    turned = torch.stack((-b, a), dim=-1).flatten(-2)
    return x * cos.repeat_interleave(2, -1) + turned * sin.repeat_interleave(2, -1)


def turn_by_loop(head_dim, base):
    return torch.tensor([2 * math.pi * base ** (2 * i / head_dim) for i in range(head_dim // 2)])


def turn_by_table(head_dim, base):
    return 2 * torch.pi / speeds(head_dim, base)


def turn_by_counting(head_dim, base):
    return 2 * torch.pi / torch.logspace(0, -1 + 2 / head_dim, head_dim // 2, base, dtype=torch.float64)


def spread_by_loop(scores):
    found = {}
    for query, row in enumerate(scores.tolist()):
        for key, score in enumerate(row):
            found.setdefault(query - key, []).append(score)
    return max(max(same) - min(same) for same in found.values())


def spread_by_distance(scores):
    distance = torch.arange(scores.shape[0])[:, None] - torch.arange(scores.shape[1])
    spreads = [scores[distance == d].max() - scores[distance == d].min() for d in distance.unique()]
    return torch.stack(spreads).max()


def spread_by_padding(scores):
    rows, columns = scores.shape
    largest = 0.0
    for start in [(row, 0) for row in range(rows)] + [(0, column) for column in range(columns)]:
        steps = torch.arange(min(rows - start[0], columns - start[1]))
        same = scores[start[0] + steps, start[1] + steps]
        largest = max(largest, (same.amax() - same.amin()).item())
    return largest


def alibi_by_loop(num_heads, num_tokens):
    bias = torch.zeros(num_heads, num_tokens, num_tokens)
    for head in range(num_heads):
        for query in range(num_tokens):
            for key in range(query + 1):
                bias[head, query, key] = -(2 ** (-8 * (head + 1) / num_heads)) * (query - key)
    return bias


def alibi_by_outer(num_heads, num_tokens):
    slopes = torch.logspace(-8 / num_heads, -8, num_heads, 2, dtype=torch.float64)
    position = torch.arange(num_tokens)
    return torch.einsum("h,qk->hqk", slopes, (position[None] - position[:, None]).clamp(max=0).double())


def alibi_in_float32(num_heads, num_tokens):
    slopes = 1 / 2 ** (8 / num_heads * torch.arange(1, num_heads + 1).float())
    position = torch.arange(num_tokens).float()
    return slopes.view(-1, 1, 1) * -(position.view(-1, 1) - position).abs()


RIGHT = {
    "tokens_per_turn": [turn_by_loop, turn_by_table, turn_by_counting],
    "rotate_neighbours": [rotate_neighbours, neighbours_by_loop, neighbours_by_complex, neighbours_by_repeat],
    "scores_by_distance": [
        distances_by_rotating_both,
        distances_by_formula,
        distances_by_diagonal,
        lambda q, k, n, b: distances_backwards(k, q, n, b),
    ],
    "diagonal_range": [spread_by_loop, spread_by_distance, spread_by_padding],
    "alibi_bias": [alibi_by_loop, alibi_by_outer, alibi_in_float32],
}

WRONG = {
    "tokens_per_turn": [
        (lambda d, b: turn_by_loop(d, b).ceil(), "the right one, rounded up to whole numbers"),
    ],
    "rotate_neighbours": [
        (lambda x, c, s: x * c, "stopped", "RuntimeError"),
    ],
    "scores_by_distance": [
        (lambda q, k, n, b: distances_by_formula(q, k, n, b).tolist(), "it should be a tensor"),
    ],
    "diagonal_range": [
        (lambda s: s.diagonal().max() - s.diagonal().min(), "on the main diagonal"),
        (lambda s: [s.diagonal(n).max() - s.diagonal(n).min() for n in range(len(s))], "it should be"),
    ],
    "alibi_bias": [
        (lambda h, t: -alibi_by_loop(h, t), "bias-wrong-sign"),
        (lambda h, t: alibi_by_loop(h, t)[:, -1], "has the shape"),
    ],
}
