"""Answers to the exercises of lesson 14, right and wrong, as learners write them."""

import importlib.util
import math
from pathlib import Path

import torch
import torch.nn.functional as F


def _of(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


step = _of("answers_blanks_14").step


def bound_by_times(operations, bytes_moved, flops_per_second, bytes_per_second):
    computing, reading = operations / flops_per_second, bytes_moved / bytes_per_second
    if reading > computing:
        return "memory"
    return "compute"


def explicit_step_by_step(num_tokens, num_heads, head_dim, bytes_per_number):
    flops = 0
    for _ in ("scores", "context"):
        flops += 2 * num_heads * num_tokens**2 * head_dim
    numbers = 0
    for _ in ("queries", "keys", "values", "context"):
        numbers += num_heads * num_tokens * head_dim
    for _ in ("scores out", "scores in", "weights out", "weights in"):
        numbers += num_heads * num_tokens**2
    return flops / (numbers * bytes_per_number)


def explicit(t, h, d, size, flops=4, pairs=4):
    return flops * h * t * t * d / (size * h * (4 * t * d + pairs * t * t))


def tokens_by_time(num_texts, weight_bytes, cache_bytes, bytes_per_second):
    seconds = weight_bytes / bytes_per_second
    for _ in range(num_texts):
        seconds += cache_bytes / bytes_per_second
    return num_texts / seconds


def blocks_by_mask(num_tokens, query_block, key_block):
    keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    rows = [torch.stack([block.any() for block in row.split(key_block, 1)]) for row in keep.split(query_block)]
    return torch.stack(rows)


def blocks_by_loop(num_tokens, query_block, key_block):
    table = torch.zeros(math.ceil(num_tokens / query_block), math.ceil(num_tokens / key_block), dtype=torch.bool)
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            last_query = min((i + 1) * query_block, num_tokens) - 1
            table[i, j] = j * key_block <= last_query
    return table


def blocks_by_pooling(num_tokens, query_block, key_block):
    keep = torch.ones(1, num_tokens, num_tokens).tril()
    return F.max_pool2d(keep, (query_block, key_block), ceil_mode=True)[0].bool()


def blocks_by_list(num_tokens, query_block, key_block):
    rows = []
    for first in range(0, num_tokens, query_block):
        rows.append([start < first + query_block for start in range(0, num_tokens, key_block)])
    return torch.tensor(rows)


def blocked_with_step(queries, keys, values, block, causal):
    rows, computed = [], 0
    positions = torch.arange(len(queries))
    for q, at in zip(queries.split(block), positions.split(block), strict=True):
        state = torch.full((len(q),), -torch.inf), torch.zeros(len(q)), torch.zeros(len(q), values.shape[1])
        for k, v, key_at in zip(keys.split(block), values.split(block), positions.split(block), strict=True):
            if causal and key_at[0] > at[-1]:
                continue
            scores = q @ k.T / q.shape[1] ** 0.5
            if causal:
                scores = scores.masked_fill(key_at > at[:, None], -torch.inf)
            state = step(*state, scores, v)
            computed += 1
        rows.append(state[2] / state[1][:, None])
    return torch.cat(rows), computed


def blocked_by_merging(queries, keys, values, block, causal):
    rows, computed = [], 0
    for i, q in enumerate(queries.split(block)):
        parts, lses = [], []
        for j, (k, v) in enumerate(zip(keys.split(block), values.split(block), strict=True)):
            if causal and j > i:
                break
            scores = q @ k.T * q.shape[-1] ** -0.5
            if causal and j == i:
                scores += torch.full_like(scores, -torch.inf).triu(1)
            parts.append(scores.softmax(-1) @ v)
            lses.append(scores.logsumexp(-1))
            computed += 1
        shares = torch.stack(lses).softmax(0)
        rows.append((shares[..., None] * torch.stack(parts)).sum(0))
    return torch.cat(rows), torch.tensor(computed)


def blocked_from_the_diagonal(queries, keys, values, block, causal):
    context, computed = torch.empty(len(queries), values.shape[1], dtype=values.dtype), 0
    for first in range(0, len(queries), block):
        end = min(first + block, len(queries))
        m = torch.full((end - first, 1), -1e30, dtype=values.dtype)
        t, c = torch.zeros_like(m), torch.zeros(end - first, values.shape[1], dtype=values.dtype)
        for start in reversed(range(0, end if causal else len(keys), block)):
            s = queries[first:end] @ keys[start : start + block].T / math.sqrt(queries.shape[1])
            if causal:
                hidden = torch.arange(start, start + s.shape[1]) > torch.arange(first, end)[:, None]
                s[hidden] = float("-inf")
            new = torch.maximum(m, s.amax(1, keepdim=True))
            t = t * (m - new).exp() + (s - new).exp().sum(1, keepdim=True)
            c = c * (m - new).exp() + (s - new).exp() @ values[start : start + block]
            m, computed = new, computed + 1
        context[first:end] = c / t
    return context, computed


def whole(queries, keys, values, block, causal, **options):
    blocks = -(-len(queries) // block)
    context = F.scaled_dot_product_attention(queries[None], keys[None], values[None], is_causal=causal, **options)[0]
    return context, blocks * (blocks + 1) // 2 if causal else blocks * blocks


def blocked_too_short(queries, keys, values, block, causal):
    blocks = len(queries) // block
    return whole(queries, keys, values, block, causal)[0][: blocks * block], blocks * (blocks + 1) // 2


def filled_with_1000(queries, keys, values, block, causal):
    scores = queries @ keys.T * queries.shape[1] ** -0.5
    later = torch.ones_like(scores).triu(1).bool() & causal
    blocks = -(-len(queries) // block)
    computed = blocks * (blocks + 1) // 2 if causal else blocks**2
    return scores.masked_fill(later, -1000.0).softmax(-1) @ values, computed


def merge_by_maximum(out_a, lse_a, out_b, lse_b):
    largest = torch.maximum(lse_a, lse_b)
    sum_a, sum_b = (lse_a - largest).exp(), (lse_b - largest).exp()
    out = (sum_a[:, None] * out_a + sum_b[:, None] * out_b) / (sum_a + sum_b)[:, None]
    return out, largest + (sum_a + sum_b).log()


def merge_by_softmax(out_a, lse_a, out_b, lse_b):
    both = torch.stack([lse_a, lse_b])
    shares = both.softmax(0)[..., None]
    return (shares * torch.stack([out_a, out_b])).sum(0), both.logsumexp(0)


def merge_by_sigmoid(out_a, lse_a, out_b, lse_b):
    return out_b + torch.sigmoid(lse_a - lse_b)[:, None] * (out_a - out_b), torch.logaddexp(lse_a, lse_b)


def merge_by_loop(out_a, lse_a, out_b, lse_b):
    rows, lses = [], []
    for a, la, b, lb in zip(out_a, lse_a, out_b, lse_b, strict=True):
        lse = torch.stack([la, lb]).logsumexp(0)
        rows.append((la - lse).exp() * a + (lb - lse).exp() * b)
        lses.append(lse)
    return torch.stack(rows), torch.stack(lses)


RIGHT = {
    "bound_by": [
        bound_by_times,
        lambda o, b, f, m: "memory" if o * m < f * b else "compute",
        lambda o, b, f, m: ["Compute", "Memory"][o / b < f / m],
    ],
    "explicit_intensity": [
        explicit_step_by_step,
        explicit,
        lambda t, h, d, size: t * d / (size * (d + t)),
        lambda t, h, d, size: torch.tensor(explicit(t, h, d, size), dtype=torch.float64),
    ],
    "tokens_per_second": [
        tokens_by_time,
        lambda n, w, c, m: n / ((w + n * c) / m),
        lambda n, w, c, m: m / (w / n + c),
    ],
    "causal_blocks": [blocks_by_mask, blocks_by_loop, blocks_by_pooling, blocks_by_list],
    "blocked_attention": [blocked_with_step, blocked_by_merging, blocked_from_the_diagonal, whole],
    "merge_partial": [merge_by_maximum, merge_by_softmax, merge_by_sigmoid, merge_by_loop],
}

WRONG = {
    "bound_by": [
        (lambda *a: True, "Your answer is True"),
        (lambda o, b, f, m: "memory-bound", "it should be '"),
        (lambda o, b, f, m: "memory" if 2 * o / b < f / m else "compute", "it should be 'memory'"),
    ],
    "explicit_intensity": [
        (lambda *a: int(explicit(*a)), "it should be"),
    ],
    "tokens_per_second": [
        (lambda n, w, c, m: n * m // (w + n * c), "it should be"),
    ],
    "causal_blocks": [
        (lambda n, q, k: blocks_by_mask(n, k, q), "has the shape"),
    ],
    "blocked_attention": [
        (blocked_too_short, "has the shape"),
        (lambda *a: (whole(*a)[0], "all"), "Of the parts, `computed` is off"),
        (filled_with_1000, "it should be"),
    ],
    "merge_partial": [
        (lambda a, la, b, lb: (la.exp() * a + lb.exp() * b, la + lb), "stopped", "RuntimeError"),
    ],
}
