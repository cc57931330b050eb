"""Answers to the exercises of lesson 02, right and wrong, as learners write them."""

import torch


def mask_by_loop(num_tokens, num_prompt=0):
    return torch.tensor(
        [[key <= max(query, num_prompt - 1) for key in range(num_tokens)] for query in range(num_tokens)]
    )


def mask_by_cat(num_tokens, num_prompt):
    known = torch.ones(num_tokens, num_prompt, dtype=torch.bool)
    later = torch.arange(num_prompt, num_tokens) <= torch.arange(num_tokens)[:, None]
    return torch.cat([known, later], dim=1)


def lower(n, diagonal=0):
    return torch.ones(n, n).tril(diagonal).bool()


def prompt(n, p):
    return torch.arange(n) < p


def prompt_square(num_tokens, num_prompt):
    keep = lower(num_tokens)
    keep[:num_prompt, :num_prompt] = True
    return keep


def joined_by_loop(keep, real):
    masks = []
    for row in real:
        mask = keep.clone()
        mask[:, ~row] = False
        masks.append(mask)
    return torch.stack(masks).unsqueeze(1)


def torch_mask_by_dict(keep, target):
    senses = {"scaled_dot_product_attention": True, "attn_mask": False, "key_padding_mask": False}
    mask = keep if senses[target] else keep.logical_not()
    return mask.flatten(1) if target == "key_padding_mask" else mask


def torch_mask_by_if(keep, target):
    if target == "scaled_dot_product_attention":
        return keep.clone()
    hidden = keep == False  # noqa: E712
    return hidden.squeeze(2).squeeze(1) if target == "key_padding_mask" else hidden


def decode_by_rows(num_queries, num_keys):
    return torch.ones(num_keys, num_keys).tril().bool()[-num_queries:]


def decode_by_loop(num_queries, num_keys):
    past = num_keys - num_queries
    return torch.tensor([[key <= query + past for key in range(num_keys)] for query in range(num_queries)])


def weights_by_loop(scores):
    weights = torch.zeros_like(scores)
    for query in range(scores.shape[1]):
        weights[:, query, : query + 1] = scores[:, query, : query + 1].softmax(-1)
    return weights


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
        mask_by_cat,
        prompt_square,
        lambda n, p: lower(n) | prompt(n, p),
        lambda n, p: torch.arange(n) <= torch.arange(n).unsqueeze(1).clamp(min=p - 1),
    ],
    "causal_weights": [
        weights_by_loop,
        lambda s: hide(s, future(s)).softmax(-1),
        lambda s: (s + torch.zeros_like(s).masked_fill(future(s), -1e30)).softmax(-1),
    ],
    "padding_mask": [padding_by_loop, padding_by_stack, lambda n, t: padding(n, t).view(len(n), 1, 1, t)],
    "joined_mask": [
        joined_by_loop,
        lambda keep, real: keep & real.view(len(real), 1, 1, -1),
        lambda keep, real: torch.logical_and(keep[None, None], real.unsqueeze(1).unsqueeze(1)),
        lambda keep, real: keep * real[:, None, None, :],
        lambda keep, real: keep.masked_fill(~real[:, None, None], False),
    ],
    "to_torch_mask": [
        torch_mask_by_dict,
        torch_mask_by_if,
        lambda keep, target: {"a": ~keep, "s": keep, "k": ~keep.reshape(len(keep), -1)}[target[0]],
        lambda keep, target: (keep ^ (target[0] != "s")).view(
            [*keep.shape[:1], *keep.shape[-1:]] if target[0] == "k" else keep.shape
        ),
    ],
    "decode_mask": [
        decode_by_rows,
        decode_by_loop,
        lambda q, k: torch.arange(k) <= torch.arange(k - q, k)[:, None],
        lambda q, k: ~torch.ones(q, k).triu(k - q + 1).bool(),
    ],
    "safe_weights": [
        lambda s, keep: hide(s, ~keep).softmax(-1).nan_to_num(),
        lambda s, keep: hide(s, ~keep, -1e9).softmax(-1) * keep,
        lambda s, keep: torch.stack([hide(a, ~b).softmax(-1).where(b, 0.0) for a, b in zip(s, keep, strict=True)]),
    ],
    "dropped_weights": [
        dropped_by_where,
        dropped_by_loop,
        lambda w, drop, p, training: w * (~drop) / (1 - p) if training else w,
    ],
}

WRONG = {
    "causal_mask": [
        (lambda n, p: torch.tril(torch.ones(n, n)) + prompt(n, p), "it should be"),
        (lambda n, p: mask_by_loop(5, 2), "Is a number written into your code"),
        (lambda n, p: torch.ones(n).tril().bool(), "stopped"),
        (
            lambda n: lower(n),
            "stopped",
            "The check calls it as causal_mask(num_tokens, num_prompt): keep its first line.",
        ),
    ],
    "causal_weights": [
        (weights_in_place, "input-modified"),
    ],
    "padding_mask": [
        (lambda n, t: padding(n, max(n))[:, None, None], "has the shape (9, 1, 1, 13); it should be (9, 1, 1, 15)"),
    ],
    "joined_mask": [
        (lambda keep, real: (keep & real[:, None, None]).int(), "int32; it should be bool"),
    ],
    "to_torch_mask": [
        (lambda keep, target: keep if target[0] == "s" else (~keep).float(), "it should be"),
        (lambda keep, target: -keep, "stopped"),
    ],
    "safe_weights": [
        (lambda s, keep: s.masked_fill_(~keep, -1e9).softmax(-1) * keep, "input-modified"),
    ],
    "dropped_weights": [
        (lambda w, drop, p, training: w.masked_fill_(drop, 0.0) / (1 - p) if training else w, "input-modified"),
    ],
}
