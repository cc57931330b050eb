"""Answers to the exercises of lesson 07, right and wrong, as learners write them."""

import math

import torch
import torch.nn.functional as F

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


def cross_by_loop(x, context, w_q, w_k, w_v):
    samples = []
    for asking, asked in zip(x, context, strict=True):
        scores = (asking @ w_q.T) @ (asked @ w_k.T).T / len(w_k) ** 0.5
        samples.append(torch.softmax(scores, 1) @ (asked @ w_v.T))
    return torch.stack(samples)


def cross_fused(x, context, w_q, w_k, w_v):
    return F.scaled_dot_product_attention(F.linear(x, w_q), F.linear(context, w_k), F.linear(context, w_v))


def cross_by_einsum(x, context, w_q, w_k, w_v):
    q, k, v = (torch.einsum("btm,dm->btd", *pair) for pair in ((x, w_q), (context, w_k), (context, w_v)))
    weights = torch.einsum("bqd,bkd->bqk", q, k).div(q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bqk,bkd->bqd", weights, v)


def cross(x, context, w_q, w_k, w_v, scale=None):
    q, k, v = x @ w_q.T, context @ w_k.T, context @ w_v.T
    return torch.softmax(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale), -1) @ v


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


def last_by_loop(outputs, lengths):
    return torch.stack([sample[length - 1] for sample, length in zip(outputs, lengths.tolist(), strict=True)])


def last_by_gather(outputs, lengths):
    index = (lengths - 1)[:, None, None].expand(-1, 1, outputs.shape[2])
    return outputs.gather(1, index).squeeze(1)


def last_by_mask(outputs, lengths):
    return outputs[torch.arange(outputs.shape[1]) == lengths[:, None] - 1]


def turn_by_loop(head_dim, base):
    return torch.tensor([2 * math.pi * base ** (2 * i / head_dim) for i in range(head_dim // 2)])


def turn_by_table(head_dim, base):
    return 2 * torch.pi / speeds(head_dim, base)


def turn_by_counting(head_dim, base):
    return 2 * torch.pi / torch.logspace(0, -1 + 2 / head_dim, head_dim // 2, base, dtype=torch.float64)


RIGHT = {
    "last_real_output": [last_by_loop, last_by_gather, last_by_mask],
    "tokens_per_turn": [turn_by_loop, turn_by_table, turn_by_counting],
    "rotate_neighbours": [rotate_neighbours, neighbours_by_loop, neighbours_by_complex, neighbours_by_repeat],
    "scores_by_distance": [
        distances_by_rotating_both,
        distances_by_formula,
        distances_by_diagonal,
        lambda q, k, n, b: distances_backwards(k, q, n, b),
    ],
    "cross_attention": [cross, cross_by_loop, cross_fused, cross_by_einsum],
}

WRONG = {
    "last_real_output": [
        (lambda o, n: o[n - 1], "has the shape", "Which line decides this size?"),
        (lambda o, n: last_by_loop(o, n)[:, None], "has the shape"),
    ],
    "tokens_per_turn": [
        (lambda d, b: (2 * torch.pi / speeds(d, b)).tolist(), "it should be a tensor"),
    ],
    "rotate_neighbours": [
        (lambda x, c, s: x * c, "stopped", "RuntimeError"),
    ],
    "scores_by_distance": [
        (lambda q, k, n, b: distances_by_formula(q, k, n, b).tolist(), "it should be a tensor"),
    ],
    "cross_attention": [
        (lambda x, c, q, k, v: cross(x, c, q.T, k.T, v.T), "stopped", "RuntimeError"),
    ],
}
