"""Exercises to lesson 02: masks, rows that see nothing, dropout."""

from __future__ import annotations

from .exercise import Exercise
from .judges.hidden_rows import DROPPED_WEIGHTS, SAFE_WEIGHTS
from .judges.masks import CAUSAL_MASK, CAUSAL_WEIGHTS, PADDING_MASK

LESSON_02 = (
    Exercise(
        "causal_mask",
        "02",
        "The causal mask",
        1,
        3,
        CAUSAL_MASK,
        (
            "Row q says what query q may look at: itself and everything before it.",
            "Begin with a square of True, `torch.ones(n, n, dtype=torch.bool)`, and cut one triangle off.",
            "`tril()` keeps the lower triangle with the diagonal.",
        ),
    ),
    Exercise(
        "causal_weights",
        "02",
        "Weights that don't see the future",
        2,
        5,
        CAUSAL_WEIGHTS,
        (
            "The mask acts on the scores, before softmax: what is hidden must get a weight of exactly 0.",
            "Which score does softmax turn into 0? Not 0: exp(0) is 1.",
            "`scores.masked_fill(~keep, -torch.inf)` returns a new tensor. Use it.",
        ),
    ),
    Exercise(
        "padding_mask",
        "02",
        "The padding mask",
        2,
        5,
        PADDING_MASK,
        (
            "Token k of sample b is real if k is less than lengths[b].",
            "`torch.arange(num_tokens) < lengths[:, None]` compares all tokens with all lengths: (batch, key).",
            "Scores are (batch, head, query, key): put two axes of size 1 between batch and key, `[:, None, None]`.",
        ),
    ),
    Exercise(
        "safe_weights",
        "02",
        "A row that may look at nothing",
        3,
        8,
        SAFE_WEIGHTS,
        (
            "With minus infinity in the whole row, softmax divides 0 by 0. Rows without a choice shall give zeros.",
            "Fill with a very low finite number: no nan any more. But what do these rows hold now?",
            "After softmax, set every hidden weight to 0. In all other rows that changes nothing.",
        ),
    ),
    Exercise(
        "dropped_weights",
        "02",
        "What dropout does to a weight",
        2,
        4,
        DROPPED_WEIGHTS,
        (
            "Three cases: dropped in training, kept in training, and evaluation.",
            "In evaluation nothing happens. In training a dropped weight is 0.",
            "A kept weight must make up for the others: only 1 - p of them are left.",
        ),
    ),
)
