"""Answers to the exercises of lesson 02, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F


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


def prompt_as_queries(num_tokens, num_prompt):
    keep = lower(num_tokens)
    keep[:num_prompt] = True
    return keep


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


def joined_in_place(keep, real):
    keep &= real[:1]
    return keep.expand(len(real), 1, -1, -1) & real[:, None, None]


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
        (lambda n, p: lower(n), "the causal mask, without the prompt"),
        (prompt_as_queries, "the tokens of the prompt see everything"),
        (lambda n, p: ~mask_by_loop(n, p), "mask-inverted"),
        (lambda n, p: mask_by_loop(n, p).T, "mask-transposed"),
        (lambda n, p: lower(n, 1) | prompt(n, p), "mask-off-by-one", "the next one"),
        (lambda n, p: lower(n, -1) | prompt(n, p), "mask-off-by-one", "from itself"),
        (lambda n, p: lower(n) | prompt(n, p + 1), "one token after the prompt"),
        (lambda n, p: torch.full((n, n), True), "no-causal-mask"),
        (lambda n, p: torch.tril(torch.ones(n, n)) + prompt(n, p), "it should be"),
        (lambda n, p: mask_by_loop(5, 2), "Is a number written into your code"),
        (lambda n, p: torch.ones(n).tril().bool(), "stopped"),
        (
            lambda n: lower(n),
            "stopped",
            "The check calls it as causal_mask(num_tokens, num_prompt): keep its first line.",
        ),
        (lambda n, p: lower(n, p), "mask-off-by-one", "whose whole diagonal is moved"),
    ],
    "causal_weights": [
        (weights_discarding, "mask-discarded"),
        (weights_in_place, "input-modified"),
        (lambda s: s.softmax(-1).masked_fill(future(s), 0), "mask-after-softmax"),
        (lambda s: (s + future(s) * -1e9).softmax(-1), "to which -1e9 was added"),
        (lambda s: (s * ~future(s)).softmax(-1), "mask-with-zero"),
        (lambda s: hide(s, ~future(s)).softmax(-1), "mask-inverted"),
        (lambda s: hide(s, ~future(s, 0)).softmax(-1), "mask-transposed"),
        (lambda s: hide(s, future(s, 2)).softmax(-1), "mask-off-by-one", "one token too many"),
        (lambda s: hide(s, future(s, 0)).softmax(-1), "mask-off-by-one", "no token sees itself"),
        (lambda s: hide(s, future(s)).softmax(1), "softmax-wrong-axis"),
        (lambda s: hide(s / s.shape[-1] ** 0.5, future(s)).softmax(-1), "wrong-scale", "scaled once more"),
        (lambda s: hide(s, future(s), -20).softmax(-1), "a fill value that is not below all scores here"),
        (lambda s: hide(s, future(s), -25.0).softmax(-1), "a fill value that is not below all scores here"),
        (lambda s: (s - 20000.0 * torch.ones_like(s[0]).triu(1)).softmax(-1), "about 1e12"),
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
        (lambda n, t: padding(n, max(n))[:, None, None], "has the shape (3, 1, 1, 10); it should be (3, 1, 1, 12)"),
        (lambda lengths, n: lengths.sort() or ..., "input-modified"),
    ],
    "joined_mask": [
        (lambda keep, real: keep | real[:, None, None], "that one of the masks allows"),
        (lambda keep, real: keep & real[:, None], "mask-rank"),
        (lambda keep, real: ~(keep & real[:, None, None]), "mask-inverted"),
        (lambda keep, real: keep & real[:, None, :, None], "mask-transposed"),
        (lambda keep, real: keep[None, None].repeat(len(real), 1, 1, 1), "the causal mask alone"),
        (lambda keep, real: real[:, None, None].repeat(1, 1, len(keep), 1), "the padding mask alone"),
        (lambda keep, real: (keep & real[:, None, None]).int(), "int32; it should be bool"),
        (lambda keep, real: keep & real, "stopped"),
        (lambda keep, real: keep & real[:, None, None] & real[:, None, :, None], "hides padding as queries, too"),
        (joined_in_place, "input-modified"),
    ],
    "to_torch_mask": [
        (lambda keep, target: keep, "mask-inverted", "whatever the target is"),
        (lambda keep, target: ~keep, "mask-inverted", "whatever the target is"),
        (lambda keep, target: keep if target[0] == "s" else ~keep, "still (batch, 1, 1, key)"),
        (lambda keep, target: keep.flatten(1) if target[0] == "k" else keep, "mask-inverted", "in two targets"),
        (lambda keep, target: ~keep.flatten(1) if target[0] == "k" else ~keep, "mask-inverted", "every target"),
        (lambda keep, target: ~keep.flatten(1) if target[0] == "k" else keep, "mask-inverted", "`attn_mask` in the"),
        (lambda keep, target: keep if target[0] == "s" else (~keep).float(), "it should be"),
        (lambda keep, target: -keep, "stopped"),
        (lambda keep, target: keep if target[0] == "s" else (~keep).squeeze(), "in a batch of one sample"),
    ],
    "decode_mask": [
        (lambda q, k: torch.ones(q, k).tril().bool(), "causal-top-left"),
        (lambda q, k: ~decode_by_rows(q, k), "mask-inverted"),
        (lambda q, k: torch.ones(q, k).tril(k - q + 1).bool(), "mask-off-by-one", "the next one"),
        (lambda q, k: torch.ones(q, k).tril(k - q - 1).bool(), "mask-off-by-one", "from itself"),
        (lambda q, k: torch.ones(q, k).bool(), "no-causal-mask"),
        (lambda q, k: torch.ones(k, k).tril().bool(), "the square mask"),
        (lambda q, k: decode_by_rows(q, k).T, "mask-transposed"),
        (lambda q, k: torch.cat([torch.zeros(q, k - q), torch.ones(q, q).tril()], 1).bool(), "hides the old tokens"),
        (lambda q, k: torch.ones(q, k).tril(k - q), "it should be bool"),
    ],
    "safe_weights": [
        (lambda s, keep: hide(s, ~keep).softmax(-1), "nan-on-hidden-rows"),
        (lambda s, keep: hide(s, ~keep, -1e9).softmax(-1), "shared out evenly"),
        (lambda s, keep: s.softmax(-1).masked_fill(~keep, 0.0), "mask-after-softmax"),
        (lambda s, keep: (s + ~keep * -1e9).softmax(-1) * keep, "to which -1e9 was added"),
        (lambda s, keep: hide(s, ~keep, 0.0).softmax(-1), "mask-with-zero"),
        (lambda s, keep: hide(s, keep).softmax(-1).nan_to_num(), "mask-inverted"),
        (lambda s, keep: F.softmax(s, 2), "mask-discarded"),
        (lambda s, keep: s.exp() * keep / (s.exp() * keep).sum(-1, keepdim=True).clamp(min=1e-300), "without a guard"),
        (lambda s, keep: s.masked_fill_(~keep, -1e9).softmax(-1) * keep, "input-modified"),
    ],
    "dropped_weights": [
        (lambda w, drop, p, training: torch.where(drop, 0.0, w / (1 - p)), "dropout-at-eval"),
        (lambda w, drop, p, training: w.masked_fill(drop, 0.0) if training else w, "only zeroes"),
        (lambda w, drop, p, training: w.masked_fill(drop, 0.0) * (1 - p) if training else w, "shrink by 1 - p"),
        (lambda w, drop, p, training: w.masked_fill(drop, 0.0) / p if training else w, "the share that goes"),
        (lambda w, drop, p, training: w * drop / (1 - p) if training else w, "mask-inverted"),
        (lambda w, drop, p, training: w, "no dropout at all"),
        (lambda w, drop, p, training: F.dropout(w, p, training), "with dice of its own", "`drop`"),
        (lambda w, drop, p, training: w.masked_fill(drop, 0.0), "dropout-at-eval", "two faults"),
        (lambda w, drop, p, training: F.normalize(w * ~drop, p=1, dim=-1) if training else w, "sum to 1 again"),
        (lambda w, drop, p, training: w.masked_fill_(drop, 0.0) / (1 - p) if training else w, "input-modified"),
    ],
}
