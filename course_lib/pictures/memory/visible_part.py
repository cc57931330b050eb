"""Choose the part of a memory that is drawn: all of it if it fits a row, else a part that shows every axis."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.pictures.style import SMALL, STYLE
from course_lib.pictures.text import number_text

from .view import BY_HEAD, NOWHERE, MemoryView

ROOMS = (32, 24, 20, 16, 12, 8, 6, 4, 3, 2, 1)  # numbers of cells to try
UNREAD = -2  # instead of an element's number, for a slot that no cell reads


@dataclass(frozen=True, eq=False)
class VisiblePart:
    """The drawn part of a view, with the x coordinates of its boxes in pixels."""

    slots: dict[int, float]  # slot -> x of its box
    cells: dict[int, float]  # cell in reading order -> x of its box
    slot_of: dict[int, int]  # drawn cell -> its slot
    elements: dict[int, int]  # drawn slot -> the element of the first tensor in it, or NOWHERE, or UNREAD
    texts: dict[int, str]  # drawn slot -> text in its box
    box: int  # width of a box
    slot_gaps: Sequence[float]  # x of the middle of each gap where slots are left out
    cell_gaps: Sequence[float]  # likewise for cells

    @property
    def width(self) -> float:
        return max(*self.slots.values(), *self.cells.values()) + self.box


def visible_parts(views: Sequence[MemoryView], num_heads: int | None, highlight: int | None) -> list[VisiblePart]:
    """Choose the slots and cells to draw: the same elements in each view, and the same slots of the same memory.

    Several heads in the width of the first tensor are included if there is room; the highlighted element always is.
    """
    tries = (_parts(views, num_heads, highlight, room) for room in ROOMS)
    return next(parts for parts in tries if all(part.width <= STYLE.memory_row for part in parts))


def _parts(views: Sequence[MemoryView], num_heads: int | None, highlight: int | None, room: int) -> list[VisiblePart]:
    whole = all(max(len(view.slots), len(view.memory)) <= room for view in views)
    kept = None if whole else _kept_elements(views, num_heads, highlight, room)
    cells = [_cells(view, kept, highlight, room) for view in views]
    # A memory is drawn alike in each panel, unless so many slices read it that only their own slots fit.
    keys = [(view.storage, view.tensor.dtype) if room > 1 else i for i, view in enumerate(views)]
    drawn: dict[object, set[int]] = {}
    for key, view, selected in zip(keys, views, cells, strict=True):
        drawn.setdefault(key, set()).update(range(len(view.memory)) if whole else view.slots[selected].tolist())
    slots = [sorted(_bridged(drawn[key])) for key in keys]
    texts = [
        [number_text(number) for number in view.memory[torch.tensor(selected, device=view.tensor.device)].tolist()]
        for view, selected in zip(views, slots, strict=True)
    ]
    box = max(STYLE.cell, math.ceil(max(SMALL.width(text) for row in texts for text in row)))
    return [_part(*arguments, box) for arguments in zip(views, slots, cells, texts, strict=True)]


def _kept_elements(views: Sequence[MemoryView], num_heads: int | None, highlight: int | None, room: int) -> Tensor:
    """Choose elements along each axis of the tensor with the most axes, always with the highlighted one."""
    first = views[0]
    same = [view for view in views if view.storage == first.storage and view.tensor.dtype == first.tensor.dtype]
    finest = max(same, key=lambda view: sum(size > 1 for size in view.shape))
    shape = finest.shape
    if num_heads and len(first.shape) != BY_HEAD:
        finest, shape = first, (*first.shape[:-1], num_heads, first.shape[-1] // num_heads)
    through = finest.cells_with(highlight).tolist()
    corner = sample_corner(shape, room, through[0] if through else None)
    elements = finest.slots.new_empty(0) if finest.elements is None else finest.elements[corner]
    return elements[elements >= 0]


def _cells(view: MemoryView, kept: Tensor | None, highlight: int | None, room: int) -> Tensor:
    """Choose the cells of a view to draw, independently of kept if the view reads none of these elements."""
    if kept is None:
        return torch.arange(len(view.slots))
    cells = view.cells_with(kept)[:room] if len(kept) else kept
    cells = torch.cat([cells, view.cells_with(highlight)[:1]]).unique()
    return cells if len(cells) else sample_corner(view.shape, room)


def _bridged(slots: Iterable[int]) -> set[int]:
    """Return the slots, together with each single slot between two of them."""
    slots = set(slots)
    return slots | {slot + 1 for slot in slots if slot + 2 in slots}


def _part(view: MemoryView, slots: list[int], cells: Tensor, texts: list[str], box: int) -> VisiblePart:
    slot_at, slot_gaps = _positions(slots, box, len(view.memory))
    cell_at, cell_gaps = _positions(cells.tolist(), box, len(view.slots))
    slot_of = dict(zip(cells.tolist(), view.slots[cells].tolist(), strict=True))
    # A slice begins below the first slot that it reads, so that its lines go straight down too.
    shift = min(slot_at[slot] for slot in slot_of.values()) - min(cell_at.values())
    shift = max(0, min(shift, max(slot_at.values()) - max(cell_at.values())))
    cell_at, cell_gaps = {cell: x + shift for cell, x in cell_at.items()}, [x + shift for x in cell_gaps]
    elements, texts_at = _elements_in(view, slots), dict(zip(slots, texts, strict=True))
    return VisiblePart(slot_at, cell_at, slot_of, elements, texts_at, box, slot_gaps, cell_gaps)


def _elements_in(view: MemoryView, slots: list[int]) -> dict[int, int]:
    """Return the element in each slot, taken from any of the cells that read it, because all read the same element."""
    read = torch.isin(view.slots, torch.tensor(slots))
    elements = torch.full_like(view.slots, NOWHERE) if view.elements is None else view.elements
    unique_slots, at = view.slots[read].unique(return_inverse=True)
    element_at = torch.zeros_like(unique_slots).scatter(0, at, elements[read])
    return dict.fromkeys(slots, UNREAD) | dict(zip(unique_slots.tolist(), element_at.tolist(), strict=True))


def _positions(indices: list[int], box: int, total: int) -> tuple[dict[int, float], list[float]]:
    """Return x of each box, with a gap where some of the total are left out, and the middle of each gap."""
    at: dict[int, float] = {}
    gaps = []
    x, before = 0.0, -1
    for index in indices:
        if index != before + 1:
            gaps.append(x + STYLE.skipped / 2 - 1)
            x += STYLE.skipped
        at[index], before = x, index
        x += box + STYLE.between
    return at, gaps + ([x + STYLE.skipped / 2 - 1] if before != total - 1 else [])


def sample_corner(shape: Sequence[int], room: int, through: int | None = None) -> Tensor:
    """Return the reading-order positions, ascending, of at most room cells at the beginning of each axis.

    Each axis keeps two or more indices where possible. Without room for all, one index of each axis before the last
    three is kept, because one whole sample shows more than two halves. The cell through is always among them.
    """
    counts = list(shape)
    samples = len(shape) - 3 if len(shape) > 3 else max(0, len(shape) - 2)
    if math.prod(shape) > room:
        counts[:samples] = [1] * samples
    for axis in reversed(range(len(shape))):
        others = sum(size > 1 for size in counts[:axis])
        if counts[axis] * 2**others > room:
            share = int(room ** (1 / (others + 1)) + 1e-9)  # indices per axis, if all axes had the same size
            counts[axis] = max(1, min(counts[axis], room, max(2, share)))
        room = max(1, room // counts[axis])
    cells = torch.zeros(1, dtype=torch.long)
    block = math.prod(shape)
    for axis, (count, size) in enumerate(zip(counts, shape, strict=True)):
        block //= size
        places = torch.arange(count)
        position = 0 if through is None else through // block % size
        if position >= count and axis == len(shape) - 1:
            places += min(position, size - count)  # adjacent cells stay adjacent
        elif position >= count:
            places[-1] = position
        cells = (cells[:, None] + places * block).flatten()
    return cells
