"""Exercises to lesson 04: where numbers lie, and how heads are cut and merged."""

from __future__ import annotations

from .exercise import Exercise
from .judges.cut_and_merge import MERGE_HEADS, SPLIT_HEADS
from .judges.memory import NUMBER_AT, STRIDES_BY_HEAD

LESSON_04 = (
    Exercise(
        "number_at",
        "04",
        "Which number lies where",
        2,
        4,
        NUMBER_AT,
        (
            "A stride says how many slots one step along its axis skips.",
            "Take each index times its stride and add them up: that is the slot.",
            "`zip(strides, index)` walks through both; `memory[slot]` is the number.",
        ),
    ),
    Exercise(
        "strides_by_head",
        "04",
        "Foretell the strides",
        3,
        5,
        STRIDES_BY_HEAD,
        (
            "Begin with the strides of (batch, token, width): a step in the width is 1, a token is the width.",
            "The view splits the width: a head is head_dim numbers on. A token still is num_heads * head_dim on.",
            "`transpose(1, 2)` exchanges shapes and strides of axes 1 and 2 and nothing else.",
        ),
    ),
    Exercise(
        "split_heads",
        "04",
        "Cut the heads",
        2,
        5,
        SPLIT_HEADS,
        (
            "Two moves: put up a fence in the width, then bring the heads to the front.",
            "`view` splits the last axis into (num_heads, head_dim). Nothing has moved yet.",
            "`x.view(batch, num_tokens, num_heads, head_dim).transpose(1, 2)`.",
        ),
    ),
    Exercise(
        "merge_heads",
        "04",
        "Put the heads back",
        2,
        4,
        MERGE_HEADS,
        (
            "The way of `split_heads` backwards: first the axes, then the fence.",
            "After `transpose(1, 2)` head and head_dim are neighbours and can be joined.",
            "`view` refuses here, because the numbers don't lie in reading order; `reshape` copies them.",
        ),
    ),
)
