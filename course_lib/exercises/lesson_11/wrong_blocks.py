"""Known wrong answers to "attention in blocks"."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Wrong

STARTED = (
    "attention whose largest score starts at a number such as 0 or -1000: where all scores are far below it, each "
    "weight is 0"
)


def _scores(q: Tensor, k: Tensor, causal: bool, scale: float | None = None) -> Tensor:
    scores = q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)
    keep = torch.ones(len(q), len(k), dtype=torch.bool)
    return scores.masked_fill(~(keep.tril() if causal else keep), -torch.inf)


def _attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None = None) -> Tensor:
    return _scores(q, k, causal, scale).softmax(-1) @ v


def _undivided(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    scores = _scores(q, k, causal)
    return (scores - scores.amax(-1, keepdim=True)).exp() @ v


def _count(num_tokens: int, block: int, causal: bool) -> int:
    blocks = -(-num_tokens // block)
    return blocks * (blocks + 1) // 2 if causal else blocks**2


def _block_softmaxes(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return the sum of what each block of keys gives by its own softmax."""
    parts = zip(_scores(q, k, causal).split(block, 1), v.split(block), strict=True)
    return sum((scores.softmax(-1).nan_to_num() @ values for scores, values in parts), torch.zeros_like(q[:, :1]))


def _block_means(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return the mean of what the blocks of keys give, each by its own softmax."""
    blocks = torch.arange(len(q)) // block + 1 if causal else torch.tensor(-(-len(q) // block))
    return _block_softmaxes(q, k, v, block, causal) / blocks[..., None]


def _whole_blocks(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention of the whole blocks alone, of queries and of keys."""
    whole = len(q) // block * block
    context = torch.zeros(len(q), v.shape[1], dtype=v.dtype)
    context[:whole] = _attend(q[:whole], k[:whole], v[:whole], causal)
    return context


def _without_shrinking(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return the result of a loop that subtracts the largest score so far and never rescales the old sums."""
    largest = torch.full((len(q),), -torch.inf, dtype=q.dtype)
    total, context = torch.zeros_like(q[:, :1]), torch.zeros(len(q), v.shape[1], dtype=v.dtype)
    for scores, values in zip(_scores(q, k, causal).split(block, 1), v.split(block), strict=True):
        largest = torch.maximum(largest, scores.amax(-1))
        weights = (scores - largest[:, None]).exp()
        total, context = total + weights.sum(-1, keepdim=True), context + weights @ values
    return context / total


def _diagonal_hidden(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention in which whole blocks are hidden and nothing within a block."""
    number = torch.arange(len(q)) // block
    scores = q @ k.T * q.shape[1] ** -0.5
    return scores.masked_fill((number > number[:, None]) & causal, -torch.inf).softmax(-1) @ v


def _each_masked(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention in which each block of a causal table hides what is above its own diagonal."""
    place = torch.arange(len(q)) % block
    hidden = (place > place[:, None]) & causal
    return _scores(q, k, causal).masked_fill(hidden, -torch.inf).softmax(-1) @ v


def _without_the_rest(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    context = _attend(q, k, v, causal)
    context[len(q) // block * block :] = 0.0
    return context


def _started_at(start: float, q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention whose largest score so far starts at a number."""
    scores = _scores(q, k, causal)
    weights = (scores - scores.amax(-1, keepdim=True).clamp(min=start)).exp()
    return weights @ v / weights.sum(-1, keepdim=True)


def _filled_with(value: float, q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
    """Return attention in which the hidden scores of the blocks on the diagonal are a number."""
    number = torch.arange(len(q)) // block
    skipped = (number > number[:, None]) & causal  # blocks that are hidden as a whole are never read
    scores = _scores(q, k, causal)
    return scores.masked_fill(scores.isinf(), value).masked_fill(skipped, -torch.inf).softmax(-1) @ v


WRONG = (
    Wrong(
        "the right context, with every block computed, even those that are hidden as a whole",
        lambda q, k, v, n, c: (_attend(q, k, v, c), _count(len(q), n, False)),
        hint="Which keys does the first block of queries see?",
    ),
    Wrong(
        "the right context, with the number of scores instead of the number of blocks",
        lambda q, k, v, n, c: (_attend(q, k, v, c), len(q) * (len(q) + 1) // 2 if c else len(q) ** 2),
        hint="What does your count count?",
    ),
    Wrong(
        "the right context, with the number of the blocks of keys instead of that of all blocks",
        lambda q, k, v, n, c: (_attend(q, k, v, c), -(-len(q) // n)),
        hint="Are the queries in blocks, too?",
    ),
    Wrong(
        "attention without a mask, whatever `causal` is",
        lambda q, k, v, n, c: (_attend(q, k, v, False), _count(len(q), n, c)),
        "no-causal-mask",
    ),
    Wrong(
        STARTED,
        lambda q, k, v, n, c: (_started_at(0.0, q, k, v, n, c), _count(len(q), n, c)),
        hint="Which number is smaller than every score?",
    ),
    Wrong(
        STARTED,
        lambda q, k, v, n, c: (_started_at(-1000.0, q, k, v, n, c), _count(len(q), n, c)),
        hint="Which number is smaller than every score?",
    ),
    Wrong(
        "attention in which hidden scores are 0, which is a score like any other",
        lambda q, k, v, n, c: (_filled_with(0.0, q, k, v, n, c), _count(len(q), n, c)),
        hint="Which weight does a hidden key get, and which score makes it 0?",
    ),
    Wrong(
        "attention in which hidden scores are -1000, which is more than a score of -6000",
        lambda q, k, v, n, c: (_filled_with(-1000.0, q, k, v, n, c), _count(len(q), n, c)),
        hint="Which weight does a hidden key get, and which score makes it 0?",
    ),
    Wrong(
        "attention in which blocks are hidden, and no single score within a block",
        lambda q, k, v, n, c: (_diagonal_hidden(q, k, v, n, c), _count(len(q), n, c)),
        hint="In the block on the diagonal, what does the first query see?",
    ),
    Wrong(
        "attention that is not scaled",
        lambda q, k, v, n, c: (_attend(q, k, v, c, 1.0), _count(len(q), n, c)),
        "missing-scale",
    ),
    Wrong(
        "a sum of softmaxes, one for each block of keys",
        lambda q, k, v, n, c: (_block_softmaxes(q, k, v, n, c), _count(len(q), n, c)),
        hint="What do the weights of a row sum to, over all blocks?",
    ),
    Wrong(
        "the mean of softmaxes, one for each block of keys: a block counts as much as any other, whatever its scores",
        lambda q, k, v, n, c: (_block_means(q, k, v, n, c), _count(len(q), n, c)),
        hint="If all scores of one block are far below those of another, how much of its values should be left?",
    ),
    Wrong(
        "attention without the last, smaller block, of queries and of keys",
        lambda q, k, v, n, c: (_whole_blocks(q, k, v, n, c), _count(len(q) // n * n, n, c)),
        hint="Where do your loops end for 5 tokens in blocks of 2?",
    ),
    Wrong(
        "attention without the last, smaller block of keys",
        lambda q, k, v, n, c: (
            _scores(q, k, c)[:, : len(q) // n * n].softmax(-1) @ v[: len(q) // n * n],
            -(-len(q) // n) * (len(q) // n),
        ),
        hint="Where does your inner loop end for 5 tokens in blocks of 2?",
    ),
    Wrong(
        "sums that are not made smaller when a block brings a larger score",
        lambda q, k, v, n, c: (_without_shrinking(q, k, v, n, c), _count(len(q), n, c)),
        hint="To which largest score do the old total and the old context refer?",
    ),
    Wrong(
        "a context that is not divided by its total",
        lambda q, k, v, n, c: (_undivided(q, k, v, c), _count(len(q), n, c)),
        hint="What is left to do after the last block of keys?",
    ),
    Wrong(
        "the context alone; the number of blocks is asked for, too",
        lambda q, k, v, n, c: _attend(q, k, v, c),
        hint="How many values does the task ask for?",
    ),
    Wrong(
        "attention whose scores are divided by head_dim, not by its square root",
        lambda q, k, v, n, c: (_attend(q, k, v, c, 1 / q.shape[1]), _count(len(q), n, c)),
        "wrong-scale",
    ),
    Wrong(
        "attention scaled by the width of the values",
        lambda q, k, v, n, c: (_attend(q, k, v, c, v.shape[1] ** -0.5), _count(len(q), n, c)),
        "wrong-scale",
    ),
    Wrong(
        "causal attention, whatever `causal` is",
        lambda q, k, v, n, c: (_attend(q, k, v, True), _count(len(q), n, c)),
        hint="Where does your code use `causal`?",
    ),
    Wrong(
        "causal attention and its number of blocks, whatever `causal` is",
        lambda q, k, v, n, c: (_attend(q, k, v, True), _count(len(q), n, True)),
        hint="Where does your code use `causal`?",
    ),
    Wrong(
        "attention without a mask and the number of all blocks, whatever `causal` is",
        lambda q, k, v, n, c: (_attend(q, k, v, False), _count(len(q), n, False)),
        "no-causal-mask",
    ),
    Wrong(
        "attention in which every block is masked like the one on the diagonal",
        lambda q, k, v, n, c: (_each_masked(q, k, v, n, c), _count(len(q), n, c)),
        hint="In a block left of the diagonal, which keys are later than a query?",
    ),
    Wrong(
        "the right context, with the smaller blocks at the end left out of the number",
        lambda q, k, v, n, c: (_attend(q, k, v, c), _count(len(q) // n * n, n, c)),
        hint="How many blocks are there for 5 tokens in blocks of 2?",
    ),
    Wrong(
        "the right context, with the blocks below the diagonal of the table; those on it are computed, too",
        lambda q, k, v, n, c: (_attend(q, k, v, c), _count(len(q), n, c) - (-(-len(q) // n) if c else 0)),
        hint="Which block does the first block of queries need?",
    ),
    Wrong(
        "a context whose last, smaller block of queries is missing",
        lambda q, k, v, n, c: (_without_the_rest(q, k, v, n, c), _count(len(q), n, c)),
        hint="Where does your outer loop end for 5 tokens in blocks of 2?",
    ),
    Wrong(
        "attention with softmax over the queries",
        lambda q, k, v, n, c: (_scores(q, k, c).softmax(0) @ v, _count(len(q), n, c)),
        "softmax-wrong-axis",
    ),
)
