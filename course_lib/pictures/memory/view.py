"""Which slot of its memory each cell of a tensor reads, and which element is stored in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from course_lib.pictures.coordinates import Coordinates, axes_by_head, axes_in_width
from course_lib.pictures.matching import positions_by_value, positions_of, slots_of

NOWHERE = -1  # instead of a number, for none of the first tensor's elements
BY_HEAD = 4  # number of axes of (batch, head, token, head_dim)


@dataclass(frozen=True, eq=False)
class MemoryView:
    """One tensor's view of its memory."""

    name: str
    tensor: Tensor  # detached
    shares_with: str | None  # name of the first given tensor that lies in the same memory
    # (cell,): the element of the first tensor that each cell reads, numbered in the order of the slots that it reads;
    # NOWHERE if it reads none of them; None if that can't be determined.
    elements: Tensor | None

    @cached_property
    def slots(self) -> Tensor:
        """The slot of each cell, (cell,), in reading order (last axis fastest)."""
        return slots_of(self.shape, self.tensor.stride(), int(self.tensor.storage_offset())).flatten()

    @cached_property
    def memory(self) -> Tensor:
        """All elements in the memory, (slot,), in the tensor's dtype and on its device."""
        num_slots = self.tensor.untyped_storage().nbytes() // self.tensor.element_size()
        return self.tensor.as_strided((num_slots,), (1,), 0)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def storage(self) -> tuple[torch.device, int]:
        """Where the memory begins, which is equal for tensors that share it; of one dtype, they share their slots."""
        return self.tensor.device, self.tensor.untyped_storage().data_ptr()

    def axis_names(self, coordinates: Coordinates) -> list[tuple[str, list[int]] | None]:
        """Return what each axis counts, as `Coordinates.axis_names` does; None for each if that can't be determined."""
        if self.elements is None:
            return [None] * len(self.shape)
        return coordinates.axis_names(self.elements.view(self.shape))

    @cached_property
    def num_read(self) -> int:
        """The number of slots that are read, each counted once."""
        return len(self.slots.unique())

    @property
    def reads_again(self) -> bool:
        """Whether several cells read the same slot."""
        return self.num_read < len(self.slots)

    @property
    def reads_all_in_order(self) -> bool:
        """Whether the cells read all of the memory, slot by slot."""
        return torch.equal(self.slots, torch.arange(len(self.memory)))

    def cells_with(self, elements: Tensor | int | None) -> Tensor:
        """Return the cells, in reading order, that read one of some elements of the first tensor."""
        if self.elements is None or elements is None:
            return torch.zeros(0, dtype=torch.long)
        return torch.isin(self.elements, torch.as_tensor(elements)).nonzero().flatten()


def views_of(
    tensors: Sequence[Tensor], names: Sequence[str], num_heads: int | None, *, named: bool
) -> tuple[list[MemoryView], Coordinates]:
    """Return one view per tensor, and the coordinates of the first one's elements, if its axes have a meaning (named).

    In the memory of the first tensor an element is recognized by its slot, in other memory by its value, if the values
    of the first tensor are all different and the other tensor contains no others. The first tensor is
    (batch, head, token, head_dim), or else (..., token, width), with the width divided into num_heads.
    """
    views: list[MemoryView] = []
    for tensor, name in zip(tensors, names, strict=True):
        view = MemoryView(name, tensor, None, None)
        shares_with = next((other.name for other in views if other.storage == view.storage), None)
        views.append(replace(view, shares_with=shares_with, elements=_elements(view, views[0] if views else view)))
    first = views[0]
    if first.elements is None or not named:
        coordinates = Coordinates.unknown(first.num_read)
    elif len(first.shape) == BY_HEAD:
        coordinates = Coordinates.of(first.elements, axes_by_head(first.shape))
    else:
        coordinates = Coordinates.of(first.elements, axes_in_width(first.shape, num_heads or 1))
    return views, replace(coordinates, num_heads=num_heads or 1)


def _elements(view: MemoryView, first: MemoryView) -> Tensor | None:
    slots = first.slots.unique()
    if view.storage != first.storage:
        return positions_by_value(view.tensor, first.memory[slots.to(first.tensor.device)])
    same_slots = view.tensor.dtype == first.tensor.dtype  # otherwise the same bytes, read as a different dtype
    return positions_of(view.slots, slots) if same_slots else None
