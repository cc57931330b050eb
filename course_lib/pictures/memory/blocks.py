"""Blocks of rows, one a head, each row in the colour of the head it truly belongs to and marked where it is wrong."""

from __future__ import annotations

import math

from torch import Tensor

from ..drawing import CELL, FOLLOW, QUIET, STEP, Drawing, head_color, text_width
from .cut import Cut
from .numbers import clip, number_text
from .panel import WIDTH

MOST_HEADS, MOST_TOKENS, MOST_NUMBERS = 4, 8, 6  # that are drawn; of more heads the first two are
COLUMN = 20  # pixels between two blocks


def draw_cut(cut: Cut, numbers: Tensor) -> Drawing:
    """Draw a cut: its code, how many rows are wrong, and a block a head, so many in a line that lines are equal.

    Args:
        cut: which number lies where.
        numbers: of the sample, in reading order.

    Returns:
        Drawing.
    """
    drawing = Drawing()
    rows = cut.holds.numel()
    verdict = f"✗ {cut.num_wrong} of {rows} rows are wrong" if cut.num_wrong else f"✓ all {rows} rows are right"
    drawing.text(0, 13, cut.code, size=13, bold=True, mono=True)
    drawing.text(0, 32, verdict, bold=cut.num_wrong > 0, color=FOLLOW if cut.num_wrong else QUIET)
    blocks = [_block(cut, head, numbers) for head in range(num_drawn_heads(len(cut.holds)))]
    width, height = max(block.width for block in blocks) + COLUMN, blocks[0].height + COLUMN
    fitting = max(1, int((WIDTH + COLUMN) // width))
    in_line = max(n for n in range(1, fitting + 1) if len(blocks) % n == 0)
    for i, block in enumerate(blocks):
        drawing.place(block, i % in_line * width, 48 + i // in_line * height)
    return drawing


def num_drawn_heads(num_heads: int) -> int:
    """How many heads are drawn: all of a few, the first two of many."""
    return num_heads if num_heads <= MOST_HEADS else 2


def _block(cut: Cut, head: int, numbers: Tensor) -> Drawing:
    """One head: a row a token, with the mark beside it."""
    block = Drawing()
    _, num_tokens, head_dim = cut.index.shape
    tokens, columns = range(min(num_tokens, MOST_TOKENS)), range(min(head_dim, MOST_NUMBERS))
    shown = numbers[cut.index[head, : len(tokens), : len(columns)]].tolist()
    texts = [[number_text(number) for number in row] for row in shown]
    box = max(CELL, math.ceil(max(text_width(text, 11) for row in texts for text in row)))
    pitch = box + STEP - CELL
    names = [clip(cut.names[token], 80, 12) for token in tokens]
    left = max(text_width(name, 12) for name in names) + 8
    right = left + len(columns) * pitch
    block.text((left + right) / 2 - 1, 12, f"head {head}", bold=True, anchor="middle")
    places = []
    for token in tokens:
        y = 20 + token * STEP
        corners = [(left + column * pitch, y) for column in columns]
        true_head, true_token = cut.owner_of(head, token)
        block.text(left - 8, y + 16, names[token], anchor="end")
        block.cells(corners, head_color(true_head), width=box)
        places += [(x + (box - CELL) / 2, y, text) for (x, _), text in zip(corners, texts[token], strict=True)]
        if head_dim > len(columns):
            places.append((right - 5, y, "…"))
        mark = right + (20 if head_dim > len(columns) else 6)
        if cut.holds[head, token]:
            block.text(mark, y + 16, "✓", size=11, color=QUIET)
        else:
            really = f"✗ really: {clip(cut.names[true_token], 80)}, head {true_head}"
            block.text(mark, y + 16, really, size=11, color=FOLLOW)
    block.numbers(places)
    return block
