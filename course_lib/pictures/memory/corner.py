"""A part of a tensor that still shows every axis of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def corner(shape: Sequence[int], room: int, through: int | None = None) -> Tensor:
    """Cells at the beginning of each axis, not more than room in all, two or more of each axis where that goes.

    If there isn't room for all, only one sample is kept, that is, one place of each axis before the last three, of
    a shape with three axes before the last two: a whole sample tells more than two halves.

    Args:
        shape: of the tensor.
        room: how many cells there may be.
        through: a cell that has to be among them, in reading order.

    Returns:
        (cell,), places in reading order, ascending.
    """
    counts = list(shape)
    samples = len(shape) - 3 if len(shape) > 3 else max(0, len(shape) - 2)
    if math.prod(shape) > room:
        counts[:samples] = [1] * samples
    for axis in reversed(range(len(shape))):
        others = sum(size > 1 for size in counts[:axis])
        if counts[axis] * 2**others > room:
            share = int(room ** (1 / (others + 1)) + 1e-9)  # as many of each axis, if all were alike
            counts[axis] = max(1, min(counts[axis], room, max(2, share)))
        room = max(1, room // counts[axis])
    cells = torch.zeros(1, dtype=torch.long)
    block = math.prod(shape)
    for axis, (count, size) in enumerate(zip(counts, shape, strict=True)):
        block //= size
        places = torch.arange(count)
        place = 0 if through is None else through // block % size
        if place >= count and axis == len(shape) - 1:
            places += min(place, size - count)  # neighbours stay neighbours
        elif place >= count:
            places[-1] = place
        cells = (cells[:, None] + places * block).flatten()
    return cells
