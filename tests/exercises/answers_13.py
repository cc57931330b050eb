"""Answers to the exercises of lesson 13, right and wrong, as learners write them."""

import torch


def ablate_columns(contexts, w_o, head):
    head_dim = contexts.shape[-1]
    without = w_o.clone()
    without[:, head * head_dim : (head + 1) * head_dim] = 0
    return contexts.transpose(1, 2).reshape(len(contexts), contexts.shape[2], -1) @ without.T


def ablate_by_sum(contexts, w_o, head):
    parts = w_o.split(contexts.shape[-1], dim=1)
    return sum(contexts[:, i] @ part.T for i, part in enumerate(parts) if i != head)


def ablate_by_difference(contexts, w_o, head):
    d = contexts.shape[-1]
    whole = contexts.transpose(1, 2).flatten(2) @ w_o.T
    return whole - contexts[:, head] @ w_o[:, head * d : head * d + d].T


def ablate_by_mask(contexts, w_o, head):
    keep = torch.ones(contexts.shape[1], dtype=contexts.dtype)
    keep[head] = 0
    return torch.einsum("bhtd,h,ohd->bto", contexts, keep, w_o.unflatten(1, (len(keep), -1)))


def patch_by_where(contexts, others, w_o, head):
    mine = (torch.arange(contexts.shape[1]) == head)[:, None, None]
    return torch.where(mine, others, contexts).transpose(1, 2).flatten(2) @ w_o.T


def patch_by_list(contexts, others, w_o, head):
    heads = list(contexts.unbind(1))
    heads[head] = others[:, head]
    return torch.cat(heads, -1) @ w_o.T


def patch_by_difference(contexts, others, w_o, head):
    d = contexts.shape[-1]
    change = (others - contexts)[:, head] @ w_o[:, head * d : (head + 1) * d].T
    return contexts.transpose(1, 2).flatten(2) @ w_o.T + change


def patch_in_place(contexts, others, w_o, head):
    contexts[:, head] = others[:, head]
    return contexts.transpose(1, 2).flatten(2) @ w_o.T


def previous_by_loop(weights):
    batch, num_heads, num_tokens, _ = weights.shape
    scores = []
    for head in range(num_heads):
        found = [weights[sample, head, t, t - 1] for sample in range(batch) for t in range(1, num_tokens)]
        scores.append(sum(found) / len(found))
    return torch.stack(scores)


def previous_by_mask(weights):
    num_tokens = weights.shape[-1]
    before = torch.diag(torch.ones(num_tokens - 1, dtype=weights.dtype), -1)
    return (weights * before).sum((0, 2, 3)) / (len(weights) * (num_tokens - 1))


def previous_by_index(weights):
    query = torch.arange(1, weights.shape[2])
    return weights[:, :, query, query - 1].transpose(0, 1).flatten(1).mean(1)


def previous_by_shift(weights):
    return weights[:, :, 1:, :-1].diagonal(dim1=-2, dim2=-1).mean(-1).mean(0)


def copy_by_loop(tokens):
    batch, num_tokens = tokens.shape
    found = torch.zeros(batch, num_tokens, num_tokens, dtype=torch.bool)
    for sample in range(batch):
        for query in range(num_tokens):
            for key in range(1, query + 1):
                found[sample, query, key] = tokens[sample, key - 1] == tokens[sample, query]
    return found


def copy_by_padding(tokens):
    before = torch.cat([torch.full_like(tokens[:, :1], -1), tokens[:, :-1]], dim=1)
    return torch.tril(tokens.unsqueeze(2) == before.unsqueeze(1))


def copy_by_roll(tokens):
    equal = (tokens[:, :, None] == tokens[:, None]).roll(1, dims=2)
    equal[:, :, 0] = False
    keep = torch.ones(equal.shape[1:], dtype=torch.bool).tril()
    return equal & keep


def copy_with_future(tokens):
    found = torch.zeros(len(tokens), tokens.shape[1], tokens.shape[1], dtype=torch.bool)
    found[:, :, 1:] = tokens[:, :, None] == tokens[:, None, :-1]
    return found


def copy_by_pad_function(tokens):
    return torch.nn.functional.pad(tokens[:, :, None] == tokens[:, None, :-1], (1, 0)).tril()


def score_by_loop(weights, tokens):
    batch, num_heads, num_tokens, _ = weights.shape
    total, count = torch.zeros(num_heads, dtype=weights.dtype), 0
    for sample in range(batch):
        for query in range(num_tokens):
            keys = [key for key in range(1, query + 1) if tokens[sample, key - 1] == tokens[sample, query]]
            if keys:
                total += weights[sample, :, query, keys].sum(-1)
                count += 1
    return total / count


def score_by_mask(weights, tokens):
    marks = copy_by_padding(tokens)
    return (weights * marks[:, None]).sum((0, 2, 3)) / marks.any(-1).sum()


def score_by_einsum(weights, tokens):
    marks = copy_by_padding(tokens).to(weights.dtype)
    return torch.einsum("bhqk,bqk->h", weights, marks) / (marks.sum(-1) > 0).sum()


def score_as_in_the_lesson(weights, tokens):
    by_head = weights.transpose(0, 1)
    return (by_head * copy_with_future(tokens)).sum(-1)[:, copy_by_padding(tokens).any(-1)].mean(-1)


def marked(weights, tokens):
    return (weights * copy_by_padding(tokens)[:, None]).sum(-1)


RIGHT = {
    "previous_token_score": [previous_by_loop, previous_by_mask, previous_by_index, previous_by_shift],
    "comes_after_copy": [copy_by_loop, copy_by_padding, copy_by_roll, copy_by_pad_function],
    "induction_score": [score_by_loop, score_by_mask, score_by_einsum, score_as_in_the_lesson],
    "ablate_head": [ablate_columns, ablate_by_sum, ablate_by_difference, ablate_by_mask],
    "patch_head": [patch_by_where, patch_by_list, patch_by_difference],
    "sink_weight": [
        lambda w: w[:, :, 1:, 0].mean((0, 2)),
        lambda w: w[..., 0][..., 1:].transpose(0, 1).flatten(1).mean(1),
        lambda w: (w[..., 0].sum((0, 2)) - len(w)) / (len(w) * (w.shape[2] - 1)),
    ],
}

WRONG = {
    "previous_token_score": [
        (lambda w: w.diagonal(-1).mean(0), "has the shape"),
        (lambda w: w.diagonal(-1, 2, 3).mean((1, 2)), "it should be"),
    ],
    "comes_after_copy": [
        (lambda t: (t[:, :, None] == t[:, None, :-1]).tril(), "has the shape"),
    ],
    "induction_score": [
        (lambda w, t: marked(w, t).mean(-1), "it should be"),
    ],
    "ablate_head": [
        (lambda c, w, h: ablate_columns(c, w, h - 1), "it should be"),
    ],
    "patch_head": [
        (patch_in_place, "input-modified", "`contexts`"),
    ],
    "sink_weight": [
        (lambda w: w[:, :, 1:, 0].mean().item(), "a float; it should be"),
    ],
}
