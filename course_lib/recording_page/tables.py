"""Draw a tensor as HTML tables, one per matrix in its last two axes, and its memory as a row of slots."""

from collections.abc import Sequence
from html import escape
from itertools import product

from .joined_axes import parts_of
from .shown_tensor import ShownTensor

TOKENS = ("token", "query", "key")
MOST_SLOTS = 144
HEADS = 8  # colours, which repeat


def tables(tensor: ShownTensor, words: Sequence[str]) -> str:
    """Return the tables of a tensor's shown numbers, with its axes named where that is known."""
    if not tensor.indices:
        return "<p>No elements.</p>"
    shape = tensor.sizes
    rows, columns = shape[-2] if len(shape) > 1 else 1, shape[-1] if shape else 1
    size = rows * columns
    parts = []
    for number, position in enumerate(product(*map(range, shape[:-2]))):
        named = tensor.meant or tensor
        caption = f"where {named.title} has " if tensor.meant else ""
        caption += ", ".join(
            _position(named, axis, index, words)
            for axis, index in enumerate(position)
            if named.axes[axis] or tensor.shape[axis] > 1
        )
        cells = range(number * size, (number + 1) * size)
        first, *others = {head for _, head in tensor.owners[number * size : (number + 1) * size]} or {None}
        color = f" style=--h:var(--head{first % HEADS})" if first is not None and not others else ""
        parts.append(_table(tensor, caption, list(cells), columns, words, color))
    return f'<div class="tables">{"".join(parts)}</div>'


def _table(
    tensor: ShownTensor, caption: str, cells: Sequence[int], columns: int, words: Sequence[str], color: str
) -> str:
    axes = ("", *tensor.axes)[-2:] if tensor.axes else ("", "")
    head = "".join(f"<th scope=col>{escape(_word(tensor, -1, column, words))}" for column in range(columns))
    text = escape(caption or f"the numbers of {tensor.title}")
    corner = "belongs to" if tensor.wrong_rows else escape(" ╲ ".join(filter(None, axes))) or "·"
    body = []
    for row, first in enumerate(range(0, len(cells), columns)):
        label = escape(_row_name(tensor, cells[first], row, words))
        row_cells = "".join(_cell(tensor, cell) for cell in cells[first : first + columns])
        body.append(f"<tr><th scope=row>{label}{row_cells}")
    hide = "" if caption else ' class="quiet"'
    head = f"<thead><tr><td class=corner>{corner}{head}"
    return f"<table{color}><caption{hide}>{text}</caption>{head}<tbody>{''.join(body)}</table>"


def _position(tensor: ShownTensor, axis: int, index: int, words: Sequence[str]) -> str:
    """Say where an index lies along an axis, such as "head 1, token big" on an axis that joins heads and tokens."""
    if " and " not in tensor.axes[axis]:
        return f"{tensor.axes[axis] or f'axis {axis}:'} {_word(tensor, axis, index, words)}"
    return ", ".join(f"{name} {word}" for name, word in _words_of_parts(tensor, axis, index, words))


def _row_name(tensor: ShownTensor, cell: int, row: int, words: Sequence[str]) -> str:
    """Name a row; a row of mixed tokens is named after its token and head, if it has only one of each."""
    if len(tensor.shape) < 2:
        return tensor.title[:12]
    owners = set(tensor.owners[cell : cell + tensor.sizes[-1]]) if "mixed" in tensor.axes else set()
    (token, head), *others = owners or [(None, None)]
    if others or token is None or head is None:
        return _word(tensor, -2, row, words)
    sign = "✗ " if tensor.wrong_rows and tensor.wrong_rows[cell // tensor.sizes[-1]] else ""
    return f"{sign}{words[token] if token < len(words) else token}, head {head}"


def _word(tensor: ShownTensor, axis: int, index: int, words: Sequence[str]) -> str:
    """Return the word of a token, or the index where the axis does not count tokens."""
    name = tensor.axes[axis] if len(tensor.axes) >= -axis else ""
    if " and " in name:
        return " ".join(word for _, word in _words_of_parts(tensor, axis, index, words))
    return words[index] if name in TOKENS and tensor.shape[axis] == len(words) else str(index)


def _words_of_parts(tensor: ShownTensor, axis: int, index: int, words: Sequence[str]) -> list[tuple[str, str]]:
    names = []
    for name, size in reversed(parts_of(tensor.axes[axis], tensor.shape[axis])):
        index, at = divmod(index, size)
        names.append((name, words[at] if name in TOKENS and size == len(words) else str(at)))
    return names[::-1]


def _cell(tensor: ShownTensor, cell: int) -> str:
    text = tensor.texts[cell]
    head = tensor.owners[cell][1] if tensor.owners else None
    if tensor.kind == "weights" and tensor.values is not None:
        return f"<td style=--w:{round(100 * float(tensor.values[cell]))}%>{text}"
    if text == "-∞" or (tensor.kind == "mask" and text == ("T" if tensor.true_hides else "F")):
        return f"<td class=off>{text}"
    return f"<td{_color(head)}>{text}"


def _color(head: int | None) -> str:
    return "" if head is None else f" class=h{head % HEADS}"


def memory(tensor: ShownTensor) -> str:
    """Return the slots of a tensor's memory in order, each with the number in it; nothing for a window."""
    slots = tensor.slots
    if not tensor.is_whole or not slots or tensor.values is None or max(slots) - min(slots) >= MOST_SLOTS:
        return ""
    colors = [_color(head) for _, head in tensor.owners] or [""] * len(slots)
    items = {slot: f"<li{color}>{text}" for slot, text, color in zip(slots, tensor.texts, colors, strict=True)}
    row = "".join(items.get(slot, "<li class=gap>") for slot in range(min(slots), max(slots) + 1))
    return f'<ol class="memory" start={min(slots)} data-first={min(slots)}>{row}</ol>'
