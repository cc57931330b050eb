"""Answers to the exercises of lesson 09, right and wrong, as learners write them."""

import torch


def grow_by_new_tensor(cache, keys, values):
    grown = []
    for old, new in zip(cache, (keys, values), strict=True):
        both = torch.zeros(*old.shape[:2], old.shape[2] + new.shape[2], old.shape[3], dtype=old.dtype)
        both[:, :, : old.shape[2]], both[:, :, old.shape[2] :] = old, new
        grown.append(both)
    return grown


def decode_until_the_first_token(model, tokens, num_new):
    for _ in range(num_new):
        newest = model(tokens)[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, newest], 1)
        if (newest == tokens[:, :1]).all():
            break
    return tokens


def permute_by_index(weight, num_heads):
    head_dim = len(weight) // num_heads
    order = [
        head * head_dim + row for head in range(num_heads) for first in (0, 1) for row in range(first, head_dim, 2)
    ]
    return weight[order]


def permute_like_transformers(weight, num_heads):
    rows, d_in = weight.shape
    return weight.view(num_heads, rows // num_heads // 2, 2, d_in).transpose(1, 2).reshape(rows, d_in)


def permute_head_by_head(weight, num_heads):
    return torch.cat([torch.cat([head[::2], head[1::2]]) for head in weight.chunk(num_heads)])


def permute_by_matrix(weight, num_heads):
    rows = len(weight)
    order = torch.arange(rows).view(num_heads, -1, 2).mT.flatten()
    return torch.eye(rows, dtype=weight.dtype)[order] @ weight


def rewind_by_split(cache, rejected):
    return tuple(one.split([one.shape[2] - rejected, rejected], dim=2)[0] for one in cache)


def rewind_by_narrow(cache, rejected):
    keys, values = cache
    return [keys.narrow(2, 0, keys.size(2) - rejected), values.narrow(2, 0, values.size(2) - rejected)]


def rewind_by_loop(cache, rejected):
    keys, values = cache
    for _ in range(rejected):
        keys, values = keys[:, :, :-1], values[:, :, :-1]
    return keys, values


def positions_by_loop(lengths, num_new):
    return torch.tensor([[length + step for step in range(num_new)] for length in lengths.tolist()])


def positions_by_stack(lengths, num_new):
    return torch.stack([lengths + step for step in range(num_new)], dim=1)


def positions_by_cumsum(lengths, num_new):
    ones = torch.ones(len(lengths), num_new, dtype=torch.long)
    return lengths.unsqueeze(1) + ones.cumsum(1) - 1


def decode_by_buffer(model, tokens, num_new):
    batch, length = tokens.shape
    whole = torch.zeros(batch, length + num_new, dtype=torch.long)
    whole[:, :length] = tokens
    for end in range(length, length + num_new):
        whole[:, end] = model(whole[:, :end])[:, -1].argmax(-1)
    return whole


def decode_by_recursion(model, tokens, num_new):
    if num_new == 0:
        return tokens
    newest = torch.argmax(model(tokens)[:, -1:], dim=2)
    return decode_by_recursion(model, torch.hstack([tokens, newest]), num_new - 1)


def decode_by_samples(model, tokens, num_new):
    done = []
    for sample in tokens:
        for _ in range(num_new):
            sample = torch.cat([sample, model(sample[None])[0, -1].argmax()[None]])
        done.append(sample)
    return torch.stack(done)


RIGHT = {
    "rewind_cache": [rewind_by_split, rewind_by_narrow, rewind_by_loop],
    "next_positions": [positions_by_loop, positions_by_stack, positions_by_cumsum],
    "greedy_decode": [decode_by_buffer, decode_by_recursion, decode_by_samples],
    "append_to_cache": [
        grow_by_new_tensor,
        lambda cache, k, v: [torch.cat(pair, dim=-2) for pair in zip(cache, (k, v), strict=True)],
        lambda cache, k, v: (torch.concat((cache[0], k), 2), torch.concat((cache[1], v), 2)),
        lambda cache, k, v: torch.cat([torch.stack(cache), torch.stack([k, v])], dim=3).unbind(),
    ],
    "permute_meta_weights": [
        permute_by_index,
        permute_like_transformers,
        permute_head_by_head,
        permute_by_matrix,
        lambda w, n: w.unflatten(0, (n, -1, 2)).transpose(1, 2).flatten(0, 2),
    ],
}

WRONG = {
    "rewind_cache": [
        (lambda c, n: c[0][:, :, : c[0].shape[2] - n], "it should be 2 values"),
    ],
    "next_positions": [
        (lambda n, new: n + torch.arange(new), "has the shape"),
    ],
    "greedy_decode": [
        (decode_until_the_first_token, "has the shape", "token 0 begins the text"),
    ],
    "append_to_cache": [
        (lambda cache, k, v: (cache[0] + k, cache[1] + v), "Of the parts, `keys` is off"),
    ],
    "permute_meta_weights": [
        (lambda w, n: w.view(n, -1, 2, w.shape[1]).transpose(1, 2).view(w.shape), "stopped", "`view` reads memory"),
        (lambda w, n: w.view(n, -1, 2, w.shape[1]).transpose(1, 2), "has the shape"),
    ],
}
