"""Brackets below the cells of a memory picture: where in the tensor's axes they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..drawing import CELL, QUIET, Drawing
from .numbers import clip
from .part import Row
from .reading import Reading

LEVEL = 24  # pixels from a row of brackets to the next


def draw_groups(drawing: Drawing, y: float, reading: Reading, row: Row, words: Sequence[str] | None) -> None:
    """Put a bracket below the cells of each place along each axis, the innermost axis on top.

    Args:
        drawing: gets the brackets.
        y: of the topmost.
        reading: what the tensor reads, with the names of its axes.
        row: what of it is drawn.
        words: labels of the tokens, or None.
    """
    shape = tuple(reading.tensor.shape)
    for axis in reversed(range(len(shape) - 1)):
        if shape[axis] == 1:
            continue
        block = math.prod(shape[axis + 1 :])
        groups: dict[int, list[float]] = {}
        for cell, x in row.cells.items():
            groups.setdefault(cell // block, []).append(x)
        drawing.lines([(xs[0] + 2, y, xs[-1] + row.box - 2, y) for xs in groups.values()], color=QUIET, width=1)
        names = []
        for prefix, xs in groups.items():
            width = xs[-1] - xs[0] + row.box
            text = clip(place_name(reading, axis, prefix, words), width)
            names.append(((xs[0] + xs[-1] + row.box - CELL) / 2, y - 1, text))
        drawing.numbers(name for name in names if name[2])
        y += LEVEL


def place_name(reading: Reading, axis: int, prefix: int, words: Sequence[str] | None) -> str:
    """What a place is called: a word, "head 1", or its index such as "[0, 1]".

    Args:
        reading: what the tensor reads, with the names of its axes.
        axis: the axis.
        prefix: which of the places of this axis and the axes before it, in reading order.
        words: labels of the tokens, or None.
    """
    shape = tuple(reading.tensor.shape)
    if reading.names[axis] is None:
        index = []
        for size in reversed(shape[: axis + 1]):
            index.insert(0, prefix % size)
            prefix //= size
        return str(index)
    name, values = reading.names[axis]
    value = values[prefix % shape[axis]]
    return words[value] if name == "token" and words else f"{name} {value}"
