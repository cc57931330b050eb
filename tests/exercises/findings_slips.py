"""Slips of the end of a long day, with the words that name each of them."""

import torch
import torch.nn.functional as F
from torch import nn


def stops_after_one_round(weights, values):
    context = torch.zeros_like(values[0])
    for weight, value in zip(weights, values, strict=True):
        context = context + weight * value
        return context  # one level too deep
    return None


def keeps_the_last_round(weights, values):
    context = None
    for weight, value in zip(weights, values, strict=True):
        context = weight * value
    return context


def normalizes_without_gain(x, gain, shift):
    return F.layer_norm(x, gain.shape) + shift


def scales_the_shift(x, gain, shift):
    return (F.layer_norm(x, gain.shape) + shift) * gain


def loss_of_probabilities(scores, tokens):
    return F.cross_entropy(scores[:, :-1].softmax(-1).transpose(1, 2), tokens[:, 1:])


def reads_the_newest_alone(model, tokens, num_new):
    unread = tokens
    for _ in range(num_new):
        unread = model(unread)[:, -1:].argmax(dim=-1)
        tokens = torch.cat([tokens, unread], dim=1)
    return tokens


def reads_all_again(model, tokens, num_new):
    for _ in range(num_new):
        scores, _ = model(tokens)
        tokens = torch.cat([tokens, scores[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


def part_by_view(x, w_q, w_k, w_v, w_o, head_dim):
    batch, num_tokens, _ = x.shape
    q, k, v = (F.linear(x, w).reshape(batch, -1, num_tokens, head_dim) for w in (w_q, w_k, w_v))
    merged = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    return F.linear(merged, w_o)


def first_token_is_zero(tokens):
    before = torch.zeros_like(tokens)
    before[:, 1:] = tokens[:, :-1]
    return (tokens[:, :, None] == before[:, None, :]).tril()


def sample_taken_away(contexts, w_o, head):
    kept = contexts.clone()
    kept[head] = 0.0
    return F.linear(kept.transpose(1, 2).flatten(2), w_o)


def grown_by_append(cache, keys, values):
    cache[0].append(keys)
    cache[1].append(values)
    return cache


def mixed_by_a_new_layer(contexts, w_o):
    joined = torch.cat(contexts, dim=-1)
    layer = nn.Linear(joined.shape[-1], w_o.shape[0], bias=False)
    return layer(joined)


def mixed_by_a_filled_layer(contexts, w_o):
    joined = torch.cat(contexts, dim=-1)
    layer = nn.Linear(joined.shape[-1], w_o.shape[0], bias=False)
    layer.weight = nn.Parameter(w_o)
    return layer(joined)


def third_sample_unmasked(scores):
    hidden = torch.ones(scores.shape[-2:]).triu(1) > 0
    masked = scores.masked_fill(hidden, -torch.inf)
    masked[2:3] = scores[2:3]
    return masked.softmax(-1)


KEPT = None


def mask_of_the_first_call(scores):
    global KEPT
    if KEPT is None:
        KEPT = torch.ones(scores.shape[-2:]).triu(1) > 0
    return scores.masked_fill(KEPT, -torch.inf).softmax(-1)


def turns_rounded(head_dim, base):
    return (2 * torch.pi * base ** (torch.arange(0, head_dim, 2) / head_dim)).round()


BY_HAND = "Which line gives this value"
MESSAGES = [
    ("context_of_token", stops_after_one_round, ("the first key alone",), (BY_HAND,)),
    ("context_of_token", keeps_the_last_round, ("the last key alone",), (BY_HAND,)),
    ("context_of_token", lambda weights, values: weights[:-1] @ values[:-1], ("without the last key",), (BY_HAND,)),
    ("attention_weights", lambda scores: (-scores).softmax(0), ("the opposite sign",), (BY_HAND,)),
    (
        "attention",
        lambda queries, keys, values: F.softmax(keys @ queries.T / keys.shape[1] ** 0.5, dim=-1) @ values,
        ("`queries` and `keys`", "exchanged"),
        (BY_HAND,),
    ),
    (
        "attention",
        lambda queries, keys, values: (queries @ keys.T / keys.shape[1] ** 0.5).softmax(-1).T @ values,
        ("weights-transposed",),
        (BY_HAND,),
    ),
    ("greedy_decode", reads_the_newest_alone, ("the newest token alone",), (BY_HAND,)),
    ("comes_after_copy", first_token_is_zero, ("token number 0",), ("What is different where",)),
    ("ablate_head", sample_taken_away, ("the sample of that number",), (BY_HAND,)),
    ("cut_rows", lambda w, i, n: w[i : i + len(w) // n], ("row number `device`",), (BY_HAND,)),
    ("partial_output", part_by_view, ("split-without-transpose",), (BY_HAND,)),
    ("layer_norm", normalizes_without_gain, ("without gain",), (BY_HAND,)),
    ("layer_norm", scales_the_shift, ("shift", "multiplied by the gain"), (BY_HAND,)),
    ("next_token_loss", loss_of_probabilities, ("double-softmax",), (BY_HAND,)),
    (
        "causal_blocks",
        lambda n, q, k: torch.arange(0, n, q)[:, None] - k + 1 >= torch.arange(0, n, k),
        ("every query may attend to every key",),
        (BY_HAND,),
    ),
    ("write_greedily", reads_all_again, ("give the model only what it has not read",), ("What does each name on",)),
    ("append_to_cache", grown_by_append, ("A tensor can't grow",), ("spelt right",)),
    ("mix_heads", mixed_by_a_new_layer, ("a new layer", "random weights"), ("dtype=x.dtype",)),
    ("mix_heads", mixed_by_a_filled_layer, ("no gradient reaches `w_o`", "`nn.Parameter(...)`"), ()),
    ("causal_weights", third_sample_unmasked, ("Along batch", "at 0, 1, 3, 4", "in sample 2?"), ("Along query",)),
    ("causal_weights", mask_of_the_first_call, ("`KEPT` is a global name", "in the first one alone"), ("lined up",)),
    ("tokens_per_turn", turns_rounded, ("rounded to whole numbers",), ("What is different where",)),
    ("scores_of_token", lambda q, k: (k @ q).round(decimals=3), ("rounded to 3 decimals",), (BY_HAND,)),
    ("scores_of_token", lambda q, k: (k @ q).trunc(), (), ("rounded",)),
]
