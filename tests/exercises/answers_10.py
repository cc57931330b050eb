"""Answers to the exercises of lesson 10, right and wrong, as learners write them."""

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


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def scores_by_place(query, keys, cos, sin):
    last = keys.shape[1] - 1
    asked = rotated(query[:, 0], cos[last], sin[last]) / query.shape[-1] ** 0.5
    columns = [(asked * rotated(keys[:, at], cos[at], sin[at])).sum(-1) for at in range(last + 1)]
    return torch.stack(columns, dim=-1)[:, None]


def scores_by_distance(query, keys, cos, sin):
    """Only the distance counts, so the keys are rotated back from the query, which stays as it is."""
    back = torch.arange(keys.shape[1] - 1, -1, -1)
    turned = rotated(keys, cos[back], -sin[back])
    return torch.einsum("hqd,hkd->hqk", query, turned) * query.shape[2] ** -0.5


def scores_of_all(query, keys, cos, sin):
    """The query is put in front of every key's place: all rotated together."""
    kept = keys.shape[1]
    both = rotated(torch.cat([keys, query.expand(-1, kept, -1)], dim=0), cos[:kept], sin[:kept])
    keys, queries = both.chunk(2)
    return (queries[:, -1:] @ keys.mT).div(query.shape[-1] ** 0.5)


def ring_by_list(ring, length, new):
    window = ring.shape[0]
    kept = {position % window: ring[position % window] for position in range(max(0, length - window), length)}
    seen = [kept[position % window] for position in range(max(0, length + 1 - window), length)] + list(new)
    after = list(ring)
    for index in range(len(new)):
        after[(length + index) % window] = new[index]
    return torch.stack(seen), torch.stack(after)


def ring_by_index(ring, length, new):
    window = len(ring)
    before = torch.arange(max(0, length - window + 1), length) % window
    seen = torch.cat([ring[before], new])
    after = ring.clone()
    last = torch.arange(max(0, len(new) - window), len(new))  # of several tokens for one slot, the newest
    after[(length + last) % window] = new[last]
    return seen, after


def ring_one_by_one(ring, length, new):
    """One new token after the other; what it overwrites was read before."""
    after, seen = [*ring], []
    for position in range(length - len(ring) + 1, length):
        if position >= 0:
            seen.append(after[position % len(ring)])
    for offset, key in enumerate(new):
        seen.append(key)
        after[(length + offset) % len(ring)] = key
    return torch.stack(seen), torch.stack(after)


def ring_written_first(ring, length, new):
    window = len(ring)
    after = ring.clone()
    for index, key in enumerate(new):
        after[(length + index) % window] = key
    before = torch.arange(max(0, length - window + 1), length) % window
    return torch.cat([after[before], new]), after


def probe_by_zeros(code, x):
    moved = []
    for token in range(x.shape[1]):
        other = x.clone()
        other[:, token] = 0.0
        moved.append(not torch.allclose(code(other)[:, -1], code(x)[:, -1], rtol=0, atol=1e-9))
    return sum(moved)


def probe_by_gradient(code, x):
    x = x.clone().requires_grad_()
    code(x)[:, -1].square().sum().backward()
    return int((x.grad.abs().amax(dim=(0, 2)) > 1e-12).sum())


def probe_in_one_batch(code, x):
    """All changed texts as one batch, sample by sample."""
    moved = torch.zeros(x.shape[1], dtype=torch.bool)
    for sample in x:
        many = sample.repeat(x.shape[1] + 1, 1, 1)
        many[torch.arange(x.shape[1]), torch.arange(x.shape[1])] -= 2.0
        last = code(many)[:, -1]
        moved |= ((last[:-1] - last[-1]).abs() > 1e-9).any(dim=1)
    return moved.sum().item()


def probe_first_that_moves(code, x):
    for token in range(x.shape[1]):
        other = x.clone()
        other[:, token] += 1
        if (code(other)[:, -1] - code(x)[:, -1]).abs().max() > 1e-9:
            return x.shape[1] - token
    return 0


RIGHT = {
    "window_with_sinks": [mask_by_loop, mask_cut_out, mask_by_distance],
    "earliest_token": [
        earliest_by_layers,
        earliest_by_sets,
        lambda p, w, kinds: torch.tensor(earliest_by_layers(p, w, kinds)),
    ],
    "streaming_scores": [scores_by_place, scores_by_distance, scores_of_all],
    "mended_ring": [ring_by_list, ring_by_index, ring_one_by_one],
    "window_probe": [probe_by_zeros, probe_by_gradient, probe_in_one_batch],
}

WRONG = {
    "window_with_sinks": [
        (lambda q, k, w, s: mask_by_loop(k, k, w, s), "has the shape"),
    ],
    "earliest_token": [
        (lambda p, w, kinds: sum(p - w for _ in kinds), "it should be"),
    ],
    "streaming_scores": [
        (lambda q, k, c, s: scores_by_place(q, k, c, -s)[:, 0], "has the shape"),
        (lambda q, k, c, s: scores_by_place(q, k, c, s) * q.shape[-1] ** 0.5, "missing-scale"),
    ],
    "mended_ring": [
        (ring_written_first, "overwritten"),
    ],
    "window_probe": [
        (probe_first_that_moves, "from the first", "one token alone"),
        (lambda code, x: 3, "it should be"),
        (lambda code, x: x.shape[1], "any output"),
    ],
}
