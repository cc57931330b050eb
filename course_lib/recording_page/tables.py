"""Draw a tensor as HTML tables, one per matrix in its last two axes, and its memory as a row of slots."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import product

from .shown import ShownTensor

MOST_SLOTS = 144
HEADS = 8  # colours, which repeat


def tables(one: ShownTensor, words: Sequence[str]) -> str:
    """Return the tables of a tensor's shown numbers, with its axes named where that is known."""
    if not one.indices:
        return "<p>No elements.</p>"
    shape = one.sizes
    rows, columns = shape[-2] if len(shape) > 1 else 1, shape[-1] if shape else 1
    size = rows * columns
    parts = []
    for number, place in enumerate(product(*map(range, shape[:-2]))):
        caption = ", ".join(
            f"{one.axes[axis] or f'axis {axis}:'} {_word(one, axis, index, words)}" for axis, index in enumerate(place)
        )
        cells = range(number * size, (number + 1) * size)
        heads = [index for axis, index in enumerate(place) if one.axes[axis] == "head"]
        color = f" style=--h:var(--head{heads[0] % HEADS})" if heads else ""
        parts.append(_table(one, caption, list(cells), columns, words, color))
    return f'<div class="tables">{"".join(parts)}</div>'


def _table(one: ShownTensor, caption: str, cells: Sequence[int], columns: int, words: Sequence[str], color: str) -> str:
    axes = ("", *one.axes)[-2:] if one.axes else ("", "")
    head = "".join(f"<th scope=col>{escape(_word(one, -1, column, words))}" for column in range(columns))
    said = escape(caption or f"the numbers of {one.title}")
    corner = escape(" ╲ ".join(filter(None, axes))) or "·"
    body = []
    for row, first in enumerate(range(0, len(cells), columns)):
        label = escape(_word(one, -2, row, words) if len(one.shape) > 1 else one.title[:12])
        body.append(f"<tr><th scope=row>{label}{''.join(_cell(one, cell) for cell in cells[first : first + columns])}")
    hide = "" if caption else ' class="quiet"'
    head = f"<thead><tr><td class=corner>{corner}{head}"
    return f"<table{color}><caption{hide}>{said}</caption>{head}<tbody>{''.join(body)}</table>"


def _word(one: ShownTensor, axis: int, index: int, words: Sequence[str]) -> str:
    """Return the word of a token, if the axis counts all of them, or the index."""
    counts_tokens = len(one.axes) >= -axis and one.axes[axis] in ("token", "query", "key")
    return words[index] if counts_tokens and one.shape[axis] == len(words) else str(index)


def _cell(one: ShownTensor, cell: int) -> str:
    text = one.texts[cell]
    if one.kind == "weights" and one.values is not None:
        return f"<td style=--w:{round(100 * float(one.values[cell]))}%>{text}"
    if text == "-∞" or (one.kind == "mask" and text == ("T" if one.true_hides else "F")):
        return f"<td class=off>{text}"
    return f"<td>{text}"


def memory(one: ShownTensor) -> str:
    """Return the slots of a tensor's memory in order, each with the number in it; nothing for a window."""
    if not one.is_whole or not one.indices or one.values is None or max(one.slots) - min(one.slots) >= MOST_SLOTS:
        return ""
    lying = dict(zip(one.slots, one.texts, strict=True))
    slots = "".join(
        f"<li>{lying[slot]}" if slot in lying else "<li class=gap>" for slot in range(min(lying), max(lying) + 1)
    )
    return f'<ol class="memory" start={min(lying)} data-first={min(lying)}>{slots}</ol>'
