"""Answers to the exercises of lesson 02, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F


def mask_by_loop(num_tokens):
    return torch.tensor([[key <= query for key in range(num_tokens)] for query in range(num_tokens)])


def weights_by_loop(scores):
    weights = torch.zeros_like(scores)
    for query in range(scores.shape[1]):
        weights[:, query, : query + 1] = scores[:, query, : query + 1].softmax(-1)
    return weights


def weights_discarding(scores):
    hidden = torch.ones_like(scores).triu(1).bool()
    scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1)


def weights_in_place(scores):
    scores.masked_fill_(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1)


def hide(scores, hidden, value=-torch.inf):
    return scores.masked_fill(hidden, value)


def future(scores, diagonal=1):
    return torch.ones(scores.shape[-1], scores.shape[-1]).triu(diagonal).bool()


def padding_by_loop(lengths, num_tokens):
    keep = torch.zeros(len(lengths), 1, 1, num_tokens, dtype=torch.bool)
    for at, length in enumerate(lengths):
        keep[at, :, :, :length] = True
    return keep


def padding_by_stack(lengths, num_tokens):
    rows = [torch.tensor([True] * length + [False] * (num_tokens - length)) for length in lengths]
    return torch.stack(rows)[:, None, None, :]


def padding(lengths, num_tokens):
    return torch.arange(num_tokens)[None] < torch.tensor(lengths)[:, None]


def padding_without_return(lengths, num_tokens):
    _keep = padding(lengths, num_tokens)[:, None, None]


def dropped_by_where(weights, drop, p, training):
    return torch.where(drop, 0.0, weights / (1 - p)) if training else weights.clone()


def dropped_by_loop(weights, drop, p, training):
    result = weights.clone()
    if training:
        for row, dropped in zip(result, drop, strict=True):
            for key in range(len(row)):
                row[key] = 0.0 if dropped[key] else row[key] * (1 / (1 - p))
    return result


RIGHT = {
    "causal_mask": [
        mask_by_loop,
        lambda n: ~torch.ones(n, n).triu(1).bool(),
        lambda n: torch.arange(n) <= torch.arange(n).unsqueeze(1),
    ],
    "causal_weights": [
        weights_by_loop,
        lambda s: hide(s, future(s)).softmax(-1),
        lambda s: (s + torch.zeros_like(s).masked_fill(future(s), -1e30)).softmax(-1),
    ],
    "padding_mask": [padding_by_loop, padding_by_stack, lambda n, t: padding(n, t).view(len(n), 1, 1, t)],
    "safe_weights": [
        lambda s, keep: hide(s, ~keep).softmax(-1).nan_to_num(),
        lambda s, keep: hide(s, ~keep, -1e9).softmax(-1) * keep,
        lambda s, keep: (s.exp() * keep) / (s.exp() * keep).sum(-1, keepdim=True).clamp(min=1e-300),
    ],
    "dropped_weights": [
        dropped_by_where,
        dropped_by_loop,
        lambda w, drop, p, training: w * (~drop) / (1 - p) if training else w,
    ],
}

WRONG = {
    "causal_mask": [
        (lambda n: torch.ones(n, n).triu(1).bool(), "mask-inverted"),
        (lambda n: torch.ones(n, n).triu().bool(), "mask-transposed"),
        (lambda n: torch.ones(n, n).tril(1) == 1, "mask-off-by-one", "the next one"),
        (lambda n: torch.ones(n, n).tril(-1) == 1, "mask-off-by-one", "from itself"),
        (lambda n: torch.full((n, n), True), "no-causal-mask"),
        (lambda n: torch.tril(torch.ones(n, n)), "it should be bool"),
        (lambda n: torch.ones(5, 5).tril().bool(), "a size written into it"),
        (lambda n: torch.ones(n).tril().bool(), "stopped"),
    ],
    "causal_weights": [
        (weights_discarding, "mask-discarded"),
        (weights_in_place, "input-modified"),
        (lambda s: s.softmax(-1).masked_fill(future(s), 0), "mask-after-softmax"),
        (lambda s: (s * ~future(s)).softmax(-1), "mask-with-zero"),
        (lambda s: hide(s, ~future(s)).softmax(-1), "mask-inverted"),
        (lambda s: hide(s, ~future(s, 0)).softmax(-1), "mask-transposed"),
        (lambda s: hide(s, future(s, 2)).softmax(-1), "mask-off-by-one", "one token too many"),
        (lambda s: hide(s, future(s, 0)).softmax(-1), "mask-off-by-one", "no token sees itself"),
        (lambda s: hide(s, future(s)).softmax(1), "softmax-wrong-axis"),
    ],
    "padding_mask": [
        (lambda n, t: ~padding_by_loop(n, t), "mask-inverted"),
        (
            lambda n, t: (torch.arange(t) <= torch.tensor(n)[:, None])[:, None, None],
            "mask-off-by-one",
            "one token of padding",
        ),
        (lambda n, t: padding(n, t)[:, None, :, None], "mask-transposed"),
        (padding, "mask-rank"),
        (lambda n, t: padding(n, t)[:, None], "mask-rank"),
        (lambda n, t: padding_by_loop(n, t).flip(3), "padding on the left"),
        (lambda n, t: padding_by_loop(n, t).int(), "int32; it should be bool"),
        (padding_without_return, "returns-none"),
        (lambda n, t: padding(n, max(n))[:, None, None], "has the shape (2, 1, 1, 5); it should be (2, 1, 1, 7)"),
    ],
    "safe_weights": [
        (lambda s, keep: hide(s, ~keep).softmax(-1), "nan-on-hidden-rows"),
        (lambda s, keep: hide(s, ~keep, -1e9).softmax(-1), "shared out evenly"),
        (lambda s, keep: s.softmax(-1).masked_fill(~keep, 0.0), "mask-after-softmax"),
        (lambda s, keep: hide(s, ~keep, 0.0).softmax(-1), "mask-with-zero"),
        (lambda s, keep: hide(s, keep).softmax(-1).nan_to_num(), "mask-inverted"),
        (lambda s, keep: F.softmax(s, 2), "mask-discarded"),
        (lambda s, keep: s.masked_fill_(~keep, -1e9).softmax(-1) * keep, "input-modified"),
    ],
    "dropped_weights": [
        (lambda w, drop, p, training: torch.where(drop, 0.0, w / (1 - p)), "dropout-at-eval"),
        (lambda w, drop, p, training: w.masked_fill(drop, 0.0) if training else w, "only zeroes"),
        (lambda w, drop, p, training: w.masked_fill(drop, 0.0) * (1 - p) if training else w, "shrink by 1 - p"),
        (lambda w, drop, p, training: w.masked_fill(drop, 0.0) / p if training else w, "the share that goes"),
        (lambda w, drop, p, training: w * drop / (1 - p) if training else w, "mask-inverted"),
        (lambda w, drop, p, training: w, "no dropout at all"),
        (lambda w, drop, p, training: F.normalize(w * ~drop, p=1, dim=-1) if training else w, "sum to 1 again"),
        (lambda w, drop, p, training: w.masked_fill_(drop, 0.0) / (1 - p) if training else w, "input-modified"),
    ],
}
