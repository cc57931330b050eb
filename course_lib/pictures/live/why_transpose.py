"""Why `view`, and then `transpose`? From one table to a table for each head, and the shortcut that scrambles them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.inputs import dream_big
from course_lib.pictures.layout.steps import layout_steps
from course_lib.pictures.memory.wrong_view import HeadSplit, draw_wrong_view, head_splits
from course_lib.recorder import record

from .figure import Figure

WORDS = dream_big().words
NUM_HEADS, HEAD_DIM = 2, 2
FOLLOWED = 14  # the number that is outlined at first
TITLE = "Why view, and then transpose?"
SAYS = (
    "Each of the six words has four numbers in a row: the first two belong to head 0, and the last two to head 1.",
    "`view` cuts each row in two, and now every word has a small table of its own; but a head has to compare "
    "the words with one another, and here no two words share a table.",
    "`transpose` gathers all the rows of a head in one table, so that each head can compare the six words; in memory, "
    "nothing has moved.",
    "The shortcut gives the same shape and no error, but it only cuts the row of memory in half: *{count} belong to "
    "somebody else*.",
)
NOTE = "Memory: one row of 24 numbers, which no step moves. The brackets below show who reads which."
CAPTION = "View cuts the row of each word into heads; transpose gathers each head in a table of its own."


def queries() -> Tensor:
    """Return (batch, token, width) labels in place of queries: each number is its slot of memory."""
    return torch.arange(len(WORDS) * NUM_HEADS * HEAD_DIM).view(1, len(WORDS), NUM_HEADS * HEAD_DIM)


def split(queries: Tensor) -> Tensor:
    by_word = queries.view(1, 6, 2, 2)
    return by_word.transpose(1, 2)


def shortcut(queries: Tensor) -> Tensor:
    return queries.view(1, 2, 6, 2)


def why_transpose() -> Figure:
    """Return the figure that lets 24 numbers move from one table to a table for each head, and to the wrong ones.

    Example:
        >>> why_transpose().save("why_transpose.html")
        PosixPath('why_transpose.html')
    """
    x = queries()
    right, wrong = record(split, x), record(shortcut, x)
    by_word, by_head = (step.tensor[0] for step in right)
    scrambled = wrong[0].tensor[0]
    mistaken, correct = head_splits(x, NUM_HEADS, WORDS)
    heads = [f"head {head}" for head in range(NUM_HEADS)]
    by_words = [_table(word, heads, rows) for word, rows in zip(WORDS, by_word, strict=True)]
    steps = [
        _step("`q_proj(x)`", "6 words × 4 numbers", SAYS[0], [_table("", WORDS, x[0])]),
        _step(f"`{right[0].code}`", "6 words × 2 heads × 2 numbers", SAYS[1], by_words),
        _step(f"`{right[1].code}`", "2 heads × 6 words × 2 numbers", SAYS[2], _by_head(by_head, correct)),
        _step(
            f"✗ `{wrong[0].code}`",
            "“2 heads × 6 words × 2 numbers”",
            SAYS[3].format(count=mistaken.count),
            _by_head(scrambled, mistaken),
        ),
    ]
    shortcut_picture = draw_wrong_view(x, num_heads=NUM_HEADS, words=WORDS)
    picture = layout_steps(right, words=WORDS).above(shortcut_picture, caption=CAPTION)
    return Figure(TITLE, ("why_transpose.js",), {**stage_data(), "steps": steps, "note": NOTE}, picture)


def stage_data() -> dict[str, Any]:
    """Return what the stage of both figures needs: words, what lies in memory, and the word and head of each number."""
    x = queries()
    owners = torch.cartesian_prod(torch.arange(len(WORDS)), torch.arange(NUM_HEADS)).repeat_interleave(HEAD_DIM, 0)
    return {"words": WORDS, "memory": x.flatten().tolist(), "owners": owners.tolist(), "follow": FOLLOWED}


def _step(name: str, reading: str, says: str, tables: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "reading": reading, "says": says, "tables": tables}


def _table(title: str, labels: Sequence[str], rows: Tensor) -> dict[str, Any]:
    named = zip(labels, rows.tolist(), strict=True)
    return {"title": title, "rows": [{"label": label, "cells": cells} for label, cells in named]}


def _by_head(by_head: Tensor, split: HeadSplit) -> list[dict[str, Any]]:
    """Return a table for each head, in which each row that doesn't hold what its label says is marked."""
    tables = [_table(f"head {head}", WORDS, rows) for head, rows in enumerate(by_head)]
    for head, table in enumerate(tables):
        for word, row in enumerate(table["rows"]):
            true_head, true_word = map(int, split.owners[head, word])
            wrong = [head, word] in split.wrong
            row |= {"mark": f"✗ {WORDS[true_word]}, head {true_head}" if wrong else "✓", "wrong": wrong}
    return tables
