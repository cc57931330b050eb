"""Answers to the exercises and blanks of lesson 12, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F


def mask_by_loop(lengths, sees=lambda query, key: key <= query):
    keep, start = torch.zeros(sum(lengths), sum(lengths), dtype=torch.bool), 0
    for length in lengths:
        for query in range(length):
            for key in range(length):
                keep[start + query, start + key] = sees(query, key)
        start += length
    return keep


def positions_by_loop(lengths, start=0):
    return torch.tensor([at for length in lengths for at in range(start, start + length)])


def targets_by_parts(tokens, lengths, end=-100):
    return torch.cat([F.pad(part[1:], (0, 1), value=end) for part in tokens.split(lengths)])


def weights_by_einsum(queries, keys, keep, cap, bend=torch.tanh):
    scores = torch.einsum("qd,kd->qk", queries, keys) / queries.shape[1] ** 0.5
    return F.softmax((bend(scores / cap) * cap).where(keep, torch.tensor(float("-inf"))), dim=1)


def norm_by_torch(x, num_heads, eps=0.0):
    return F.rms_norm(x.view(*x.shape[:2], num_heads, -1), (x.shape[2] // num_heads,), eps=eps).transpose(1, 2)


def norm_by_chunks(x, num_heads, norm=lambda part: part.norm(dim=-1, keepdim=True) / part.shape[-1] ** 0.5):
    return torch.stack([part / norm(part) for part in x.chunk(num_heads, dim=-1)], dim=1)


def layers_by_sdpa(x, q_weights, k_weight, v_weight, past_keys, past_values, causal=True):
    keys, values = torch.cat((past_keys, x @ k_weight), 0), torch.cat((past_values, x @ v_weight), 0)
    place = torch.arange(len(past_keys), len(keys))
    keep = torch.arange(len(keys)) <= place[:, None] if causal else None
    for layer in range(len(q_weights)):
        x = x + F.scaled_dot_product_attention(x @ q_weights[layer], keys, values, attn_mask=keep)
    return x, keys, values


def layers_token_by_token(x, q_weights, k_weight, v_weight, keys, values):
    rows = []
    for row in x:
        keys, values = torch.vstack([keys, row @ k_weight]), torch.vstack([values, row @ v_weight])
        for q_weight in q_weights:
            scores = keys @ (row @ q_weight) / keys.shape[1] ** 0.5
            row = row + scores.softmax(0) @ values
        rows.append(row)
    return torch.stack(rows), keys, values


def selected_by_loop(queries, keys, values, index_scores, k, least=1):
    context, past = torch.zeros(*queries.shape[:3], values.shape[-1]).to(values), keys.shape[2] - queries.shape[2]
    for b in range(queries.shape[0]):
        for q in range(queries.shape[2]):
            seen = past + q + 1
            chosen = index_scores[b, q, :seen].sort(descending=True).indices[: max(least, k)]
            scores = torch.einsum("hd,hkd->hk", queries[b, :, q], keys[b][:, chosen]) / queries.shape[3] ** 0.5
            context[b, :, q] = torch.einsum("hk,hkw->hw", scores.softmax(-1), values[b][:, chosen])
    return context


def selected_by_sdpa(queries, keys, values, index_scores, k):
    seen = torch.ones_like(index_scores).tril(keys.shape[2] - queries.shape[2]).bool()
    rank = index_scores.where(seen, -torch.inf).argsort(-1, descending=True).argsort(-1)
    return F.scaled_dot_product_attention(queries, keys, values, ((rank < k) & seen)[:, None])


def selected_by_threshold(queries, keys, values, index_scores, k):
    seen = torch.ones_like(index_scores).tril(keys.shape[2] - queries.shape[2]).bool()
    kth = index_scores.where(seen, -torch.inf).sort(-1, descending=True).values[..., :k][..., -1:]
    return F.scaled_dot_product_attention(queries, keys, values, ((index_scores >= kth) & seen)[:, None])


def gap_by_loop(layer, row, lengths, keep, positions, texts=slice(None)):
    packed, start, gaps = layer(row, keep=keep, positions=positions), 0, []
    for length in lengths:
        text = slice(start, start + length)
        gaps.append(float((packed[:, text] - layer(row[:, text])).abs().amax()))
        start += length
    return max(gaps[texts])


def gap_by_norm(layer, row, lengths, keep, positions):
    parts = zip(layer(row, keep=keep, positions=positions).split(lengths, 1), row.split(lengths, 1), strict=True)
    return torch.stack([torch.dist(packed, layer(text), float("inf")) for packed, text in parts]).max()


def layers_by_dict(kinds, num_shared):
    last, found = {}, []
    for at, kind in enumerate(kinds):
        if at < len(kinds) - num_shared:
            last[kind] = at
        found.append(last[kind])
    return found


RIGHT = {
    "packed_mask": [mask_by_loop, lambda n: torch.block_diag(*[torch.ones(one, one).tril() for one in n]).bool()],
    "capped_weights": [weights_by_einsum, lambda q, k, m, c: weights_by_einsum(q, k, m, torch.tensor(float(c)))],
    "norm_heads": [
        norm_by_torch,
        norm_by_chunks,
        lambda x, h: norm_by_torch(x, h, 1e-6),
        lambda x, h: norm_by_torch(x, h, 1e-5),
    ],
    "packed_gap": [gap_by_loop, gap_by_norm],
    "shared_layers": [layers_by_sdpa, layers_token_by_token],
    "selected_attention": [selected_by_loop, selected_by_sdpa],
    "restarted_positions": [
        positions_by_loop,
        lambda n: torch.tensor([at for one in n for at in range(one)]),
        lambda n: torch.cat([torch.ones(one).cumsum(0).long() - 1 for one in n]),
    ],
    "packed_targets": [
        targets_by_parts,
        lambda t, n: torch.cat([torch.cat([one[1:], one.new_tensor([-100])]) for one in t.split(n)]),
        lambda t, n: t.roll(-1).index_fill(0, torch.tensor(n).cumsum(0) - 1, -100),
    ],
    "gated_context": [
        lambda c, g: torch.einsum("bhtd,bth->bthd", c, g.sigmoid()).flatten(2),
        lambda c, g: (c.transpose(1, 2) * torch.sigmoid(g).unsqueeze(-1)).reshape(*g.shape[:2], -1),
        lambda c, g: torch.cat([c[:, at] / (1 + (-g[:, :, at, None]).exp()) for at in range(c.shape[1])], dim=-1),
    ],
    "index_scores": [
        lambda q, k, w: torch.einsum("qh,hqk->qk", w, torch.einsum("hqd,kd->hqk", q, k).clamp(min=0)),
        lambda q, k, w: sum(w[:, [at]] * F.relu(q[at] @ k.T) for at in range(len(q))),
        lambda q, k, w: torch.stack([w[at] @ F.relu(q[:, at] @ k.T) for at in range(len(w))]),
    ],
    "kv_layers": [
        layers_by_dict,
        lambda kinds, n: [max(i for i in range(min(at + 1, len(kinds) - n)) if kinds[i] == kinds[at])
                          for at in range(len(kinds))],
        lambda kinds, n: [at if at < len(kinds) - n else kinds.rfind(one, 0, len(kinds) - n)
                          for at, one in enumerate(kinds)],
    ],
}  # fmt: skip

WRONG = {
    "packed_mask": [
        (lambda n: mask_by_loop(n, lambda query, key: key < query), "mask-off-by-one"),
    ],
    "capped_weights": [
        (lambda q, k, m, c: weights_by_einsum(q, k, m, c, lambda scores: scores), "softcap-missing"),
    ],
    "norm_heads": [
        (lambda x, h: norm_by_chunks(x, h, lambda part: part.norm(dim=-1, keepdim=True)), "length 1"),
        (
            lambda x, h: norm_by_chunks(x, h, lambda part: x.square().mean(-1, keepdim=True).sqrt()),
            "over all heads",
        ),
        (lambda x, h: norm_by_torch(x, h).transpose(1, 2), "has the shape"),
    ],
    "packed_gap": [
        (lambda *case: gap_by_loop(*case) < 1e-6, "it should be"),
        (lambda *case: gap_by_loop(*case, texts=slice(1)), "in the first text alone"),
        (lambda *case: gap_by_loop(*case, texts=slice(len(case[2]) > 1, None)), "in all texts but the first"),
        (lambda layer, row, n, keep, _: gap_by_loop(layer, row, n, keep, None), "positions run on"),
    ],
    "shared_layers": [
        (lambda *parts: layers_by_sdpa(*parts, causal=False), "be"),
    ],
    "selected_attention": [
        (lambda q, k, v, s, n: selected_by_loop(q, k, v, s, n, least=2), "be"),
        (lambda q, k, v, s, n: selected_by_sdpa(q, k, v, s, 10**6), "be"),
        (selected_by_threshold, "of equal scores, more than k"),
    ],
    "restarted_positions": [
        (lambda n: positions_by_loop(n, 1), "begin at 1"),
        (lambda n: positions_by_loop([sum(n)]), "run on"),
    ],
    "packed_targets": [(lambda t, n: targets_by_parts(t, n, 0), "0 in place of -100")],
    "gated_context": [(lambda c, g: c * g.sigmoid().transpose(1, 2)[..., None], "has the shape")],
    "kv_layers": [(lambda kinds, n: layers_by_dict(kinds[::-1], n), "be")],
}
