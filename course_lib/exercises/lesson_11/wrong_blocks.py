"""What wrong answers to "attention in blocks" compute."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_scores(q: Tensor, k: Tensor, causal: bool, scale: float | None = None) -> Tensor:
    scores = q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)
    keep = torch.ones(len(q), len(k), dtype=torch.bool)
    return scores.masked_fill(~(keep.tril() if causal else keep), -torch.inf)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None = None) -> Tensor:
    return masked_scores(q, k, causal, scale).softmax(-1) @ v


def undivided(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    scores = masked_scores(q, k, causal)
    return (scores - scores.amax(-1, keepdim=True)).exp() @ v


def count(num_tokens: int, block: int, causal: bool) -> int:
    blocks = -(-num_tokens // block)
    return blocks * (blocks + 1) // 2 if causal else blocks**2


def block_softmaxes(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return the sum of what each block of keys gives by its own softmax."""
    parts = zip(masked_scores(q, k, causal).split(block, 1), v.split(block), strict=True)
    return sum((scores.softmax(-1).nan_to_num() @ values for scores, values in parts), torch.zeros_like(q[:, :1]))


def block_means(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return the mean of what the blocks of keys give, each by its own softmax."""
    blocks = torch.arange(len(q)) // block + 1 if causal else torch.tensor(-(-len(q) // block))
    return block_softmaxes(q, k, v, block, causal) / blocks[..., None]


def whole_blocks(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention of the whole blocks alone, of queries and of keys."""
    whole = len(q) // block * block
    context = torch.zeros(len(q), v.shape[1], dtype=v.dtype)
    context[:whole] = attend(q[:whole], k[:whole], v[:whole], causal)
    return context


def without_shrinking(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return the result of a loop that subtracts the largest score so far and never rescales the old sums."""
    largest = torch.full((len(q),), -torch.inf, dtype=q.dtype)
    total, context = torch.zeros_like(q[:, :1]), torch.zeros(len(q), v.shape[1], dtype=v.dtype)
    for scores, values in zip(masked_scores(q, k, causal).split(block, 1), v.split(block), strict=True):
        largest = torch.maximum(largest, scores.amax(-1))
        weights = (scores - largest[:, None]).exp()
        total, context = total + weights.sum(-1, keepdim=True), context + weights @ values
    return context / total


def diagonal_hidden(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention in which whole blocks are hidden and nothing within a block."""
    number = torch.arange(len(q)) // block
    scores = q @ k.T * q.shape[1] ** -0.5
    return scores.masked_fill((number > number[:, None]) & causal, -torch.inf).softmax(-1) @ v


def each_masked(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention in which each block of a causal table hides what is above its own diagonal."""
    place = torch.arange(len(q)) % block
    hidden = (place > place[:, None]) & causal
    return masked_scores(q, k, causal).masked_fill(hidden, -torch.inf).softmax(-1) @ v


def without_the_rest(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    context = attend(q, k, v, causal)
    context[len(q) // block * block :] = 0.0
    return context


def started_at(start: float, q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention whose largest score so far starts at a number."""
    scores = masked_scores(q, k, causal)
    weights = (scores - scores.amax(-1, keepdim=True).clamp(min=start)).exp()
    return weights @ v / weights.sum(-1, keepdim=True)


def filled_with(value: float, q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention in which the hidden scores of the blocks on the diagonal are a number."""
    number = torch.arange(len(q)) // block
    skipped = (number > number[:, None]) & causal  # blocks that are hidden as a whole are never read
    scores = masked_scores(q, k, causal)
    return scores.masked_fill(scores.isinf(), value).masked_fill(skipped, -torch.inf).softmax(-1) @ v
