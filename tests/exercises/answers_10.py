"""Answers to the exercises of lesson 10, right and wrong, as learners write them."""

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


def ablate_in_place(contexts, w_o, head):
    contexts[:, head] = 0
    return contexts.transpose(1, 2).flatten(2) @ w_o.T


def ablate_weight_in_place(contexts, w_o, head):
    d = contexts.shape[-1]
    w_o[:, head * d : (head + 1) * d] = 0.0
    return contexts.transpose(1, 2).flatten(2) @ w_o.T


def drop_the_head(contexts, w_o, head):
    others = torch.cat([contexts[:, :head], contexts[:, head + 1 :]], 1)
    merged = others.transpose(1, 2).flatten(2)
    return merged @ w_o.T


def accuracy_by_loop(logits, tokens, known):
    hits = []
    for sample in range(len(tokens)):
        for t in range(1, tokens.shape[1]):
            if known[sample, t]:
                hits.append(int(logits[sample, t - 1].argmax() == tokens[sample, t]))
    return sum(hits) / len(hits)


def accuracy_by_counts(logits, tokens, known):
    right = (logits.argmax(2)[:, :-1] == tokens[:, 1:]) & known[:, 1:]
    return right.sum() / known.sum()


def accuracy_by_roll(logits, tokens, known):
    said = logits.argmax(-1).roll(1, 1)  # token 0 gets the last answer, and is never known
    return (said == tokens)[known].double().mean().item()


def before_by_loop(weights):
    places = [weights[:, :, t, t - 1].mean(0) for t in range(1, weights.shape[2])]
    return torch.stack(places, 1)


def before_by_index(weights):
    query = torch.arange(1, weights.shape[2])
    return weights.mean(0)[:, query, query - 1]


def before_by_shift(weights):
    return torch.diagonal(weights[:, :, 1:, :-1], dim1=-2, dim2=-1).sum(0) / len(weights)


def replaced(contexts, w_o, head, found):
    others = contexts.clone()
    others[:, head] = found
    return others.transpose(1, 2).reshape(len(others), others.shape[2], -1) @ w_o.T


def mean_by_difference(contexts, w_o, head):
    d = contexts.shape[-1]
    found = contexts[:, head]
    change = found.flatten(0, 1).mean(0) - found
    whole = contexts.transpose(1, 2).flatten(2) @ w_o.T
    return whole + change @ w_o[:, head * d : (head + 1) * d].T


def mean_by_sum(contexts, w_o, head):
    output = 0
    for i, (found, part) in enumerate(zip(contexts.unbind(1), w_o.split(contexts.shape[-1], dim=1), strict=True)):
        output = output + (found.mean((0, 1), keepdim=True).expand_as(found) if i == head else found) @ part.T
    return output


def mean_in_place(contexts, w_o, head):
    contexts[:, head] = contexts[:, head].mean((0, 1))
    return contexts.transpose(1, 2).flatten(2) @ w_o.T


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


RIGHT = {
    "ablate_head": [ablate_columns, ablate_by_sum, ablate_by_difference, ablate_by_mask],
    "known_accuracy": [accuracy_by_loop, accuracy_by_counts, accuracy_by_roll],
    "weight_before_by_place": [before_by_loop, before_by_index, before_by_shift],
    "mean_ablate": [
        lambda c, w, h: replaced(c, w, h, c[:, h].mean((0, 1))),
        mean_by_difference,
        mean_by_sum,
    ],
    "patch_head": [patch_by_where, patch_by_list, patch_by_difference],
    "sink_weight": [
        lambda w: w[:, :, 1:, 0].mean((0, 2)),
        lambda w: w[..., 0][..., 1:].transpose(0, 1).flatten(1).mean(1),
        lambda w: (w[..., 0].sum((0, 2)) - len(w)) / (len(w) * (w.shape[2] - 1)),
    ],
}

WRONG = {
    "ablate_head": [
        (ablate_in_place, "input-modified", "`contexts`"),
        (ablate_weight_in_place, "input-modified", "`w_o`"),
        (drop_the_head, "stopped", "the last size of the left equal"),
        (lambda c, w, h: ablate_columns(c, w, h - 1), "it should be"),
    ],
    "known_accuracy": [
        (lambda x, t, k: (x.argmax(-1)[:, :-1] == t[:, 1:])[k[:, 1:]], "it should be"),
        (lambda x, t, k: (x.argmax(1) == t)[k].float().mean(), "stopped", "RuntimeError"),
        (
            lambda logits, tokens, known: (logits[:, :-1].argmax(-1) == tokens[:, 1:])[known[:, 1:]].mean(),
            "number with decimals",
        ),
    ],
    "mean_ablate": [
        (mean_in_place, "input-modified", "`contexts`"),
        (lambda c, w, h: replaced(c, w, h, c[:, h].mean((0, 1)))[0], "has the shape"),
    ],
    "patch_head": [
        (patch_in_place, "input-modified", "`contexts`"),
    ],
    "sink_weight": [
        (lambda w: w[:, :, 1:, 0].mean().item(), "a float; it should be"),
    ],
}
