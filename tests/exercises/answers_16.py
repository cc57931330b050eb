"""Answers to the exercises of lesson 16, right and wrong, as learners write them."""

import math

import torch
import torch.nn.functional as F


def part_by_einsum(x, w_q, w_k, w_v, w_o, head_dim):
    q, k, v = (torch.einsum("btm,hdm->bhtd", x, weight.unflatten(0, (-1, head_dim))) for weight in (w_q, w_k, w_v))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / head_dim**0.5
    scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
    context = torch.einsum("bhqk,bhkd->bqhd", scores.softmax(-1), v)
    return torch.einsum("bqhd,ohd->bqo", context, w_o.unflatten(1, (-1, head_dim)))


def part_fused(x, w_q, w_k, w_v, w_o, head_dim, **options):
    heads = len(w_q) // head_dim
    q, k, v = (F.linear(x, weight).unflatten(2, (heads, head_dim)).transpose(1, 2) for weight in (w_q, w_k, w_v))
    context = F.scaled_dot_product_attention(q, k, v, is_causal=options.pop("is_causal", True), **options)
    return F.linear(context.transpose(1, 2).flatten(2), w_o)


def part_head_by_head(x, w_q, w_k, w_v, w_o, head_dim):
    output = 0
    parts = (weight.split(head_dim) for weight in (w_q, w_k, w_v))
    for q, k, v, o in zip(*parts, w_o.split(head_dim, dim=1), strict=True):
        scores = x @ q.T @ (x @ k.T).transpose(1, 2) / math.sqrt(head_dim)
        hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
        output = output + scores.masked_fill(hidden, float("-inf")).softmax(2) @ (x @ v.T) @ o.T
    return output


def part_not_merged(x, w_q, w_k, w_v, w_o, head_dim):
    batch, num_tokens, _ = x.shape
    q, k, v = (F.linear(x, weight).view(batch, num_tokens, -1, head_dim).transpose(1, 2) for weight in (w_q, w_k, w_v))
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return context.contiguous().transpose(1, 2).view(batch, num_tokens, -1) @ w_o.T


def cache_by_parts(num_tokens, num_kv_heads, head_dim, num_devices, bytes_per_number):
    heads = num_kv_heads // num_devices if num_kv_heads > num_devices else 1
    keys = num_tokens * heads * head_dim * bytes_per_number
    values = keys
    return keys + values


def sent_step_by_step(num_layers, num_texts, d_model, num_devices, bytes_per_number):
    piece = num_texts * d_model // num_devices * bytes_per_number
    return sum(
        piece for _ in range(num_layers) for _ in ("attention", "feedforward") for _ in range(2 * num_devices - 2)
    )


def biases_by_columns(q_bias, out_bias, device, num_devices):
    first = out_bias if device == 0 else 0 * out_bias
    return [q_bias.view(num_devices, -1)[device], first]


def biases_by_new_tensors(q_bias, out_bias, device, num_devices):
    mine = torch.tensor_split(q_bias, num_devices)[device].clone()
    out = torch.zeros(len(out_bias), dtype=out_bias.dtype)
    if not device:
        out += out_bias
    return mine, out


def degree_by_loop(weights_ms, cache_ms, num_kv_heads, ring_ms, degrees):
    best, shortest = None, math.inf
    for devices in degrees:
        parts_of_cache = devices if devices < num_kv_heads else num_kv_heads
        time = weights_ms / devices + cache_ms / parts_of_cache + ring_ms * (devices - 1)
        if time < shortest:
            best, shortest = devices, time
    return best


def degree_by_tensors(weights_ms, cache_ms, num_kv_heads, ring_ms, degrees):
    n = torch.tensor(degrees, dtype=torch.float64)
    times = weights_ms / n + cache_ms / n.clamp(max=num_kv_heads) + (n - 1) * ring_ms
    return degrees[times.argmin()]


def total_ms(weights_ms, cache_ms, num_kv_heads, ring_ms, degrees):
    return [weights_ms / n + cache_ms / min(n, num_kv_heads) + (n - 1) * ring_ms for n in degrees]


def merged_two_by_two(outputs, lses):
    output, lse = outputs[0], lses[0]
    for other, other_lse in zip(outputs[1:], lses[1:], strict=True):
        both = torch.logaddexp(lse, other_lse)
        output = (lse - both).exp()[:, None] * output + (other_lse - both).exp()[:, None] * other
        lse = both
    return output


def merged_with_a_guard(outputs, lses):
    sums = (lses - lses.max(dim=0).values).exp()
    return torch.einsum("nq,nqd->qd", sums / sums.sum(dim=0), outputs)


RIGHT = {
    "partial_output": [part_by_einsum, part_fused, part_head_by_head, lambda *a: part_fused(*a).contiguous()],
    "cache_per_device": [
        cache_by_parts,
        lambda t, g, d, n, size: 2 * t * math.ceil(g / n) * d * size,
        lambda t, g, d, n, size: max(2 * t * d * size * g // n, 2 * t * d * size),
        lambda t, g, d, n, size: sum(t * len(range(0, g, n)) * d * size for _ in ("keys", "values")),
    ],
    "biases_of_device": [
        biases_by_columns,
        biases_by_new_tensors,
        lambda q, o, i, n: (q.chunk(n)[i], o * (i == 0)),
    ],
    "ring_bytes": [
        sent_step_by_step,
        lambda layers, b, m, n, size: 4 * layers * b * m * size * (n - 1) // n,
        lambda layers, b, m, n, size: round(2 * layers * 2 * (n - 1) / n * (b * m * size)),
    ],
    "best_degree": [
        degree_by_loop,
        degree_by_tensors,
        lambda *given: min(zip(total_ms(*given), given[-1], strict=True))[1],
    ],
    "merge_devices": [
        merged_two_by_two,
        merged_with_a_guard,
        lambda o, lse: ((lse - lse.logsumexp(0)).exp()[..., None] * o).sum(0),
    ],
}

WRONG = {
    "partial_output": [
        (part_not_merged, "stopped", "`view` reads memory"),
    ],
    "cache_per_device": [
        (lambda t, g, d, n, size: 2 * t * (t // n) * d * size, "it should be"),
    ],
    "biases_of_device": [
        (lambda q, o, i, n: (q.chunk(n)[i], o if i == 0 else None), "`out_bias` is None"),
    ],
    "ring_bytes": [
        (lambda layers, b, m, n, size: 4 * layers * (n - 1) * b * b * m * size // n, "it should be"),
    ],
    "best_degree": [
        (lambda w, c, g, ring, d: g, "it should be"),
    ],
    "merge_devices": [
        (lambda o, lse: (lse.softmax(0) * o).sum(0), "stopped"),
    ],
}
