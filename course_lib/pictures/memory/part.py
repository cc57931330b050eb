"""What of a memory is drawn, and where: all of it if that fits a row, else a part that shows every axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..drawing import CELL, STEP, text_width
from .corner import corner
from .numbers import number_text
from .reading import Reading

ROW = 792  # pixels of a row: 24 slots of 33
GAP = 16  # pixels for the dots where something is left out
ROOMS = (32, 24, 20, 16, 12, 8, 6, 4, 3, 2, 1)  # how many cells are tried to be drawn
UNKNOWN, UNREAD = -1, -2  # instead of a number: of another tensor than the first; in a slot that no cell reads


@dataclass(frozen=True, eq=False)
class Row:
    """What of one reading is drawn, and how far from the left, in pixels.

    Attributes:
        slots: slot -> x of its box.
        cells: cell in reading order -> x of its box.
        slot_of: drawn cell -> its slot.
        numbers: drawn slot -> number of the first tensor that lies in it, or UNKNOWN, or UNREAD.
        texts: drawn slot -> what is written in it.
        box: width of a box.
        slot_dots, cell_dots: x of the middle of each place where slots, or cells, are left out.
    """

    slots: dict[int, float]
    cells: dict[int, float]
    slot_of: dict[int, int]
    numbers: dict[int, int]
    texts: dict[int, str]
    box: float
    slot_dots: list[float]
    cell_dots: list[float]

    @property
    def width(self) -> float:
        return max(*self.slots.values(), *self.cells.values()) + self.box


def choose_rows(readings: Sequence[Reading], heads: int | None, follow: int | None) -> list[Row]:
    """Choose the slots and cells to draw: the same numbers in each reading, the same slots of the same memory.

    Args:
        readings: what the tensors read, the first tensor's first.
        heads: number of heads the width of the first tensor is divided into; several show, if there is room.
        follow: a number (its rank) that has to be drawn, or None.

    Returns:
        One Row a reading.
    """
    tries = (_rows(readings, heads, follow, room) for room in ROOMS)
    return next(rows for rows in tries if all(row.width <= ROW for row in rows))


def _rows(readings: Sequence[Reading], heads: int | None, follow: int | None, room: int) -> list[Row]:
    whole = all(max(len(reading.slots), len(reading.memory)) <= room for reading in readings)
    kept = None if whole else _kept_numbers(readings, heads, follow, room)
    cells = [_cells(reading, kept, follow, room) for reading in readings]
    # One memory is drawn alike in each panel, unless so many slices read it that only their own slots still fit.
    keys = [reading.memory_key if room > 1 else i for i, reading in enumerate(readings)]
    drawn: dict[object, set[int]] = {}
    for key, reading, own in zip(keys, readings, cells, strict=True):
        every = range(len(reading.memory)) if whole else reading.slots[own].tolist()
        drawn.setdefault(key, set()).update(every)
    slots = [sorted(_bridged(drawn[key])) for key in keys]
    texts = [
        [number_text(number) for number in reading.memory[torch.tensor(own, device=reading.tensor.device)].tolist()]
        for reading, own in zip(readings, slots, strict=True)
    ]
    box = max(CELL, math.ceil(max(text_width(text, 11) for row in texts for text in row)))
    return [_row(*of_one, box) for of_one in zip(readings, slots, cells, texts, strict=True)]


def _kept_numbers(readings: Sequence[Reading], heads: int | None, follow: int | None, room: int) -> Tensor:
    """Some numbers out of each axis of the tensor that has the most axes, the followed one among them."""
    first = readings[0]
    finest = max(
        (reading for reading in readings if reading.memory_key == first.memory_key),
        key=lambda reading: sum(size > 1 for size in reading.tensor.shape),
    )
    shape = tuple(finest.tensor.shape)
    if heads and first.tensor.dim() != 4:
        finest, shape = first, (*first.tensor.shape[:-1], heads, first.tensor.shape[-1] // heads)
    through = finest.cells_with(follow)
    numbers = finest.numbers[corner(shape, room, int(through[0]) if len(through) else None)]
    return numbers[numbers >= 0]


def _cells(reading: Reading, kept: Tensor | None, follow: int | None, room: int) -> Tensor:
    """The cells of a reading that are drawn; of its own choice where it reads none of the kept numbers."""
    if kept is None:
        return torch.arange(len(reading.slots))
    cells = reading.cells_with(kept)[:room] if len(kept) else kept
    cells = torch.cat([cells, reading.cells_with(follow)[:1]]).unique()
    return cells if len(cells) else corner(tuple(reading.tensor.shape), room)


def _bridged(slots: Iterable[int]) -> set[int]:
    """The slots, and each one that alone lies between two of them."""
    slots = set(slots)
    return slots | {slot + 1 for slot in slots if slot + 2 in slots}


def _row(reading: Reading, slots: list[int], cells: Tensor, texts: list[str], box: float) -> Row:
    pitch = box + STEP - CELL
    slot_at, slot_dots = _spread(slots, pitch, len(reading.memory))
    cell_at, cell_dots = _spread(cells.tolist(), pitch, len(reading.slots))
    slot_of = dict(zip(cells.tolist(), reading.slots[cells].tolist(), strict=True))
    # A slice begins below the first slot that it reads, so that its lines too go straight down.
    shift = min(slot_at[slot] for slot in slot_of.values()) - min(cell_at.values())
    shift = max(0, min(shift, max(slot_at.values()) - max(cell_at.values())))
    numbers = dict.fromkeys(slots, UNREAD)
    read = torch.isin(reading.slots, torch.tensor(slots))
    ranks = torch.full_like(reading.slots, UNKNOWN) if reading.numbers is None else reading.numbers
    found, at = reading.slots[read].unique(return_inverse=True)
    numbers.update(
        zip(found.tolist(), torch.zeros_like(found).scatter(0, at, ranks[read]).tolist(), strict=True)
    )  # of cells that read one slot any will do: they read one number
    return Row(
        slots=slot_at,
        cells={cell: x + shift for cell, x in cell_at.items()},
        slot_of=slot_of,
        numbers=numbers,
        texts=dict(zip(slots, texts, strict=True)),
        box=box,
        slot_dots=slot_dots,
        cell_dots=[x + shift for x in cell_dots],
    )


def _spread(places: list[int], pitch: float, total: int) -> tuple[dict[int, float], list[float]]:
    """x of each box, with a gap where places of the total are left out, and the middle of each gap."""
    at: dict[int, float] = {}
    dots = []
    x, before = 0.0, -1
    for place in places:
        if place != before + 1:
            x += GAP
            dots.append(x - GAP / 2 - 1)
        at[place], before = x, place
        x += pitch
    return at, dots + ([x + GAP / 2 - 1] if before != total - 1 else [])
