"""Follow index numbers and masks: each decides which number is read, or where a number is written."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .recorded_call import MOST_PAIRS, cells_by_element
from .shown_tensor import ShownTensor

Part = tuple[int, Tensor]  # the first axis that a part of a key indexes, and the part


def read_by_index(result: ShownTensor, source: ShownTensor, index: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
    """Mark for each cell the index number that chose what it reads.

    Each index is moved by one place in some of a few runs, which bit by bit spell its position: what a cell reads
    changes in the runs in which its index is moved.

    Args:
        read: returns the labels that the cells read with other indices.
    """
    table = cells_by_element(result, source)
    moved = torch.where(index > 0, index - 1, torch.where(index < -1, index + 1, torch.where(index < 0, -2, 1)))
    before = read(index)
    try:
        chosen = (read(moved) != before).nonzero().flatten()
    except (IndexError, RuntimeError):  # along an axis of size 1 there is nothing to choose
        return table
    position = torch.arange(index.numel()).view(index.shape)
    chosen_position = torch.zeros(len(table), dtype=torch.long)
    for bit in range(index.numel().bit_length()):
        is_moved = (position >> bit) % 2 == 1
        chosen_position |= (read(torch.where(is_moved, moved, index)) != before).long() << bit
    table[chosen, chosen_position[chosen]] = True
    return table


def read_by_mask(result: ShownTensor, source: ShownTensor, elements: Tensor) -> Tensor:
    """Mark for each cell the mask's number at its place and those before, which decide how many cells stand before it.

    Args:
        elements: the element of the mask that let each cell through.
    """
    table = cells_by_element(result, source)
    return table | (torch.arange(source.numel)[None, :] <= elements[:, None])


def written_by(
    result: ShownTensor, inputs: Sequence[ShownTensor], tensors: Sequence[Tensor], key: Any
) -> dict[int, Tensor]:
    """Return which numbers of the masks and indices in a key decide on each cell in `x[key] = value`."""
    shape = result.shape
    parts = list(parts_of(key, len(shape)))
    region = torch.zeros(shape, dtype=torch.bool)
    region[_widest(key)] = True
    inside = region.flatten()[result.cells]
    coordinates = torch.unravel_index(result.cells, shape)
    indices = [(axis, part) for axis, part in parts if part.dtype != torch.bool]
    if indices and len(indices) < len(parts):
        raise ValueError("masks among indices")
    of = {id(tensor): i for i, tensor in enumerate(tensors)}
    tables: dict[int, Tensor] = {}
    for axis, mask in parts:
        if mask.dtype == torch.bool and id(mask) in of:
            numbers = torch.arange(mask.numel()).view(mask.shape)
            table = cells_by_element(result, inputs[of[id(mask)]])
            cells = inside.nonzero().flatten()
            chosen = tuple(coordinate[cells] for coordinate in coordinates[axis : axis + mask.dim()])
            table[cells, numbers[chosen]] = True
            tables[of[id(mask)]] = table
    for (_, index), table in zip(indices, _of_indices(indices, shape, coordinates), strict=True):
        if id(index) in of:  # and not a list in the key
            tables[of[id(index)]] = table & inside[:, None]
    return tables


def parts_of(key: Any, dims: int) -> Iterator[Part]:
    """Yield the tensors in the key of `x[key]`, each with the first axis of x that it indexes."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, (list, tuple)) for part in parts):
        parts = tuple(torch.tensor(part) if isinstance(part, (list, tuple)) else part for part in parts)
    left = dims - sum(_axes_of(part) for part in parts)
    axis = 0
    for part in parts:
        if isinstance(part, Tensor):
            yield axis, part
        axis += left if part is Ellipsis else _axes_of(part)


def _axes_of(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.dim() if isinstance(part, Tensor) and part.dtype == torch.bool else 1


def _widest(key: Any) -> Any:
    """Replace each mask and index in the key by everything that it could select."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        chosen = isinstance(part, (Tensor, list))
        parts += [slice(None)] * max(_axes_of(part), 1) if chosen else [part]
    return tuple(parts)


def _of_indices(indices: Sequence[Part], shape: tuple[int, ...], coordinates: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield, for each index tensor, which of its numbers could select each cell, given where the others point."""
    if not indices:
        return
    broad = torch.broadcast_shapes(*(part.shape for _, part in indices))
    if len(coordinates[0]) * broad.numel() > MOST_PAIRS:
        raise ValueError("too many pairs")
    agree = [
        (part.detach().cpu().expand(broad).flatten() % shape[axis])[None, :] == coordinates[axis][:, None]
        for axis, part in indices
    ]
    for number, (_, part) in enumerate(indices):
        could = torch.ones_like(agree[0])
        for other, same in enumerate(agree):
            could &= same if other != number else True
        elements = torch.arange(part.numel()).view(part.shape).expand(broad).flatten()
        yield torch.zeros(len(could), part.numel(), dtype=torch.int32).index_add_(1, elements, could.int()) > 0
