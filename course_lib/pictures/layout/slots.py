"""The memory below a layout picture: a row of slots for each storage that its tensors read."""

from __future__ import annotations

from collections.abc import Sequence

from ..drawing import CELL, QUIET, STEP, Drawing, text_width
from .chains import Chain, Stage
from .meaning import Meaning
from .panel_drawing import color_of

MOST_SLOTS = 32  # a longer row of memory isn't drawn


def draw_memory(chain: Chain, meaning: Meaning, words: Sequence[str], number: int) -> Drawing:
    """Each memory of the chain as a row of slots with the numbers that lie there."""
    drawing = Drawing()
    if len(chain.sources) > 1 or len(meaning.head) > MOST_SLOTS:
        return drawing
    memories: dict[int, list[Stage]] = {}
    for stage in (*chain.sources, *chain.stages):
        memories.setdefault(stage.memory, []).append(stage)
    for stages in memories.values():
        numbers = dict(zip(stages[0].slots.flatten().tolist(), stages[0].numbers.flatten().tolist(), strict=True))
        readers = ", ".join(dict.fromkeys(stage.title for stage in stages))
        drawing.place(
            _draw_slots(numbers, meaning, words, number, readers), 0, drawing.height + (10 if drawing.height else 0)
        )
    return drawing


def _draw_slots(numbers: dict[int, int], meaning: Meaning, words: Sequence[str], follow: int, readers: str) -> Drawing:
    drawing = Drawing()
    first = min(numbers)
    count = max(numbers) - first + 1
    drawing.text(0, 12, "memory", bold=True)
    drawing.text(58, 12, f"{count} slots, read by {readers}", color=QUIET)
    row = [numbers.get(first + slot, -1) for slot in range(count)]
    places = [(slot * STEP, 22.0) for slot in range(count)]
    colors = [color_of(n, meaning) for n in row]
    for color in dict.fromkeys(colors):
        drawing.cells([place for place, own in zip(places, colors, strict=True) if own == color], color)
    drawing.numbers([(x, y, "" if n < 0 else str(n)) for (x, y), n in zip(places, row, strict=True)])
    if follow in row:
        drawing.outline(*places[row.index(follow)])
    start = 0
    for slot in range(1, count + 1):  # the token below its stretch of slots
        ends = slot == count or meaning.token[max(row[slot], 0)] != meaning.token[max(row[start], 0)]
        if ends:
            token = int(meaning.token[max(row[start], 0)])
            label = words[token] if token < len(words) else f"token {token}"
            if text_width(label, 11) <= (slot - start) * STEP + 6:
                middle = (start + slot) * STEP / 2 - 1
                drawing.text(middle, 22 + CELL + 14, label, size=11, color=QUIET, anchor="middle")
            start = slot
    return drawing
