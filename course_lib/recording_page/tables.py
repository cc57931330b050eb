"""Draw a tensor as HTML tables, one per matrix in its last two axes, and its memory as a row of slots."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import product

from .joined_axes import parts_of
from .shown import ShownTensor

TOKENS = ("token", "query", "key")
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
        named = one.meant or one
        caption = f"where {named.title} has " if one.meant else ""
        caption += ", ".join(
            _place(named, axis, index, words)
            for axis, index in enumerate(place)
            if named.axes[axis] or one.shape[axis] > 1
        )
        cells = range(number * size, (number + 1) * size)
        first, *others = {head for _, head in one.owners[number * size : (number + 1) * size]} or {None}
        color = f" style=--h:var(--head{first % HEADS})" if first is not None and not others else ""
        parts.append(_table(one, caption, list(cells), columns, words, color))
    return f'<div class="tables">{"".join(parts)}</div>'


def _table(one: ShownTensor, caption: str, cells: Sequence[int], columns: int, words: Sequence[str], color: str) -> str:
    axes = ("", *one.axes)[-2:] if one.axes else ("", "")
    head = "".join(f"<th scope=col>{escape(_word(one, -1, column, words))}" for column in range(columns))
    said = escape(caption or f"the numbers of {one.title}")
    corner = "belongs to" if one.wrong_rows else escape(" ╲ ".join(filter(None, axes))) or "·"
    body = []
    for row, first in enumerate(range(0, len(cells), columns)):
        label = escape(_row_name(one, cells[first], row, words))
        body.append(f"<tr><th scope=row>{label}{''.join(_cell(one, cell) for cell in cells[first : first + columns])}")
    hide = "" if caption else ' class="quiet"'
    head = f"<thead><tr><td class=corner>{corner}{head}"
    return f"<table{color}><caption{hide}>{said}</caption>{head}<tbody>{''.join(body)}</table>"


def _place(one: ShownTensor, axis: int, index: int, words: Sequence[str]) -> str:
    """Say where along an axis an index is, such as "head 1, token big" along one that joins heads and tokens."""
    if " and " not in one.axes[axis]:
        return f"{one.axes[axis] or f'axis {axis}:'} {_word(one, axis, index, words)}"
    return ", ".join(f"{name} {word}" for name, word in _words_of_parts(one, axis, index, words))


def _row_name(one: ShownTensor, cell: int, row: int, words: Sequence[str]) -> str:
    """Name a row, of mixed tokens after the token and the head that it belongs to, if all of it does."""
    if len(one.shape) < 2:
        return one.title[:12]
    owners = set(one.owners[cell : cell + one.sizes[-1]]) if "mixed" in one.axes else set()
    (token, head), *others = owners or [(None, None)]
    if others or token is None or head is None:
        return _word(one, -2, row, words)
    sign = "✗ " if one.wrong_rows and one.wrong_rows[cell // one.sizes[-1]] else ""
    return f"{sign}{words[token] if token < len(words) else token}, head {head}"


def _word(one: ShownTensor, axis: int, index: int, words: Sequence[str]) -> str:
    """Return the word of a token, if the axis counts all of them, or the index; both along an axis that joins them."""
    name = one.axes[axis] if len(one.axes) >= -axis else ""
    if " and " in name:
        return " ".join(word for _, word in _words_of_parts(one, axis, index, words))
    return words[index] if name in TOKENS and one.shape[axis] == len(words) else str(index)


def _words_of_parts(one: ShownTensor, axis: int, index: int, words: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for name, size in reversed(parts_of(one.axes[axis], one.shape[axis])):
        index, at = divmod(index, size)
        found.append((name, words[at] if name in TOKENS and size == len(words) else str(at)))
    return found[::-1]


def _cell(one: ShownTensor, cell: int) -> str:
    text = one.texts[cell]
    head = one.owners[cell][1] if one.owners else None
    if one.kind == "weights" and one.values is not None:
        return f"<td style=--w:{round(100 * float(one.values[cell]))}%>{text}"
    if text == "-∞" or (one.kind == "mask" and text == ("T" if one.true_hides else "F")):
        return f"<td class=off>{text}"
    return f"<td{_color(head)}>{text}"


def _color(head: int | None) -> str:
    return "" if head is None else f" class=h{head % HEADS}"


def memory(one: ShownTensor) -> str:
    """Return the slots of a tensor's memory in order, each with the number in it; nothing for a window."""
    if not one.is_whole or not one.indices or one.values is None or max(one.slots) - min(one.slots) >= MOST_SLOTS:
        return ""
    owners = one.owners or [(None, None)] * len(one.slots)
    lying = {
        slot: f"<li{_color(head)}>{text}" for slot, text, (_, head) in zip(one.slots, one.texts, owners, strict=True)
    }
    slots = "".join(lying.get(slot, "<li class=gap>") for slot in range(min(lying), max(lying) + 1))
    return f'<ol class="memory" start={min(lying)} data-first={min(lying)}>{slots}</ol>'
