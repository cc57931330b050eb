"""Answers to the exercises of lesson 10, right and wrong, as learners write them."""

import itertools

import torch


def mask_by_loop(query_len, key_len, window, num_sinks):
    rows = []
    for query in range(query_len):
        position = key_len - query_len + query
        rows.append([key <= position and (position - key < window or key < num_sinks) for key in range(key_len)])
    return torch.tensor(rows)


def mask_cut_out(query_len, key_len, window, num_sinks):
    keep = torch.ones(key_len, key_len, dtype=torch.bool).tril()
    band = keep.triu(1 - window)
    band[:, :num_sinks] = keep[:, :num_sinks]
    return band[key_len - query_len :]


def mask_by_distance(query_len, key_len, window, num_sinks):
    key = torch.arange(key_len)
    distance = torch.arange(key_len - query_len, key_len).unsqueeze(1) - key
    return torch.logical_and(distance >= 0, torch.logical_or(distance < window, key < num_sinks))


def slot_by_walking(position, window, num_sinks):
    slot = 0
    for _ in range(position):
        slot = slot + 1 if slot + 1 < num_sinks + window else num_sinks
    return slot


def slot_by_subtraction(position, window, num_sinks):
    while position >= num_sinks + window:
        position -= window
    return position


def earliest_by_layers(position, window, layers):
    for kind in reversed(layers):
        position = 0 if kind == "G" else max(0, position - window + 1)
    return position


def earliest_by_sets(position, window, layers):
    reached = {position}
    for kind in layers[::-1]:
        wide = position + 1 if kind == "G" else window
        reached = {before for at in reached for before in range(max(0, at - wide + 1), at + 1)}
    return min(reached)


def absorb_by_loop(value_up, out_weight, num_heads):
    width = value_up.shape[0] // num_heads
    parts = []
    for head in range(num_heads):
        rows = slice(head * width, (head + 1) * width)
        parts.append(out_weight[:, rows] @ value_up[rows])
    return torch.cat(parts, dim=1)


def absorb_by_blocks(value_up, out_weight, num_heads):
    return out_weight @ torch.block_diag(*value_up.chunk(num_heads))


def absorb_by_einsum(value_up, out_weight, num_heads):
    by_head = value_up.view(num_heads, -1, value_up.shape[1])
    out = out_weight.view(len(out_weight), num_heads, -1)
    return torch.einsum("mhv,hvl->mhl", out, by_head).reshape(len(out), -1)


def slot_by_listing(position, block_table, block_size):
    slots = [range(block * block_size, (block + 1) * block_size) for block in block_table]
    return list(itertools.chain.from_iterable(slots))[position]


RIGHT = {
    "window_with_sinks": [mask_by_loop, mask_cut_out, mask_by_distance],
    "rolling_slot": [
        slot_by_walking,
        slot_by_subtraction,
        lambda p, w, s: p if p < s + w else s + (p - s) % w,
    ],
    "earliest_token": [
        earliest_by_layers,
        earliest_by_sets,
        lambda p, w, kinds: torch.tensor(earliest_by_layers(p, w, kinds)),
    ],
    "latent_cache_bytes": [
        lambda t, n, h, latent, rotary, size: (latent + rotary) * size * n * t,
        lambda t, n, h, latent, rotary, size: sum((latent + rotary) * t * size for _ in range(n)),
        lambda t, n, h, latent, rotary, size: torch.tensor(t * n * (latent + rotary) * size),
    ],
    "absorb_value_projection": [absorb_by_loop, absorb_by_blocks, absorb_by_einsum],
    "flat_slot": [
        slot_by_listing,
        lambda p, t, s: t[divmod(p, s)[0]] * s + divmod(p, s)[1],
        lambda p, t, s: p + (t[p // s] - p // s) * s,
    ],
}

WRONG = {
    "window_with_sinks": [
        (lambda q, k, w, s: mask_by_loop(k, k, w, s), "has the shape"),
        (lambda q, k, w, s: mask_by_loop(q, k, w, s).float(), "bool"),
    ],
    "rolling_slot": [
        (lambda p, w, s: s + (p - s) % w if p > s else p * (p < s), "it should be"),
        (lambda p, w, s: slot_by_walking(p, w, s) / 1, "should be the integer"),
    ],
    "earliest_token": [
        (lambda p, w, kinds: sum(p - w for _ in kinds), "it should be"),
    ],
    "absorb_value_projection": [
        (lambda v, o, h: absorb_by_loop(v.flip(0), o, h), "it should be"),
        (lambda v, o, h: v @ o, "stopped"),
    ],
}
