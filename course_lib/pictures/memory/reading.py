"""What a tensor reads: which slot of its memory each of its cells points to, and whose number lies there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class Reading:
    """One tensor's way through its memory.

    Attributes:
        label: how the tensor is called.
        tensor: the tensor, detached.
        shares_with: label of the first tensor given that lies in the same memory, None if there is none.
        slots: (cell,), the slot of each cell, cells in reading order (last axis fastest).
        memory: (slot,), all that lies in the memory, in the tensor's dtype, on its device.
        numbers: (cell,), which number of the first tensor each cell reads, by its rank among the slots that the first
            tensor reads; -1 where it is none of them. None where it can't be known.
        names: for each axis ("token" | "head" | "sample", values), or None where moving along it is nothing of these.
    """

    label: str
    tensor: Tensor
    shares_with: str | None = None
    slots: Tensor = field(init=False)
    memory: Tensor = field(init=False)
    numbers: Tensor | None = None
    names: list[tuple[str, list[int]] | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        tensor = self.tensor
        slots = torch.tensor(tensor.storage_offset())
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
            slots = slots[..., None] + torch.arange(size) * stride
        self.slots = slots.flatten()
        num_slots = tensor.untyped_storage().nbytes() // tensor.element_size()
        self.memory = tensor.as_strided((num_slots,), (1,), 0)

    @property
    def memory_key(self) -> tuple:
        """The same for tensors whose slots are the same."""
        return *self.place, self.tensor.dtype

    def cells_with(self, numbers: Tensor | int | None) -> Tensor:
        """The cells, in reading order, that read one of some numbers of the first tensor."""
        if self.numbers is None or numbers is None:
            return torch.zeros(0, dtype=torch.long)
        return torch.isin(self.numbers, torch.as_tensor(numbers)).nonzero().flatten()

    @property
    def place(self) -> tuple[torch.device, int]:
        """Where the memory begins: the same for tensors that share it."""
        return self.tensor.device, self.tensor.untyped_storage().data_ptr()

    @property
    def in_order(self) -> bool:
        """Whether reading goes through the memory from left to right and to no slot twice."""
        return bool((self.slots.diff() > 0).all())


def read_all(tensors: Sequence[Tensor], labels: Sequence[str]) -> list[Reading]:
    """Read tensors, and find in each the numbers of the first, where that can be known.

    In the memory of the first tensor a number is known by its slot. In other memory it is known by its value, if the
    values of the first tensor are all different and the other tensor holds nothing else.

    Args:
        tensors: one or more, with numbers in them.
        labels: one a tensor.

    Returns:
        One Reading a tensor, without names.
    """
    readings = [Reading(label, tensor) for label, tensor in zip(labels, tensors, strict=True)]
    first = readings[0]
    slots = first.slots.unique()
    values, order = _comparable(first.memory[slots.to(first.tensor.device)]).sort()
    distinct = bool((values[1:] != values[:-1]).all()) and not bool(values.isnan().any())
    for i, reading in enumerate(readings):
        reading.shares_with = next((other.label for other in readings[:i] if other.place == reading.place), None)
        if reading.memory_key == first.memory_key:
            reading.numbers = _rank(slots, reading.slots)
        elif distinct and reading.tensor.dtype == first.tensor.dtype and reading.place != first.place:
            found = _rank(values, _comparable(reading.tensor).flatten())
            reading.numbers = None if bool((found < 0).any()) else order[found]
    return readings


def _comparable(tensor: Tensor) -> Tensor:
    """The same numbers on the CPU, in a dtype that can be sorted."""
    return tensor.cpu().double() if tensor.is_floating_point() else tensor.cpu().long()


def _rank(known: Tensor, wanted: Tensor) -> Tensor:
    """The place of each wanted entry in a sorted tensor, -1 where it isn't in it."""
    rank = torch.searchsorted(known, wanted.contiguous()).clamp(max=len(known) - 1)
    return torch.where(known[rank] == wanted, rank, -1)


def belongings(first: Reading, heads: int | None) -> dict[str, Tensor]:
    """Where each number of the first tensor belongs.

    Args:
        first: its reading; the tensor is (batch, head, token, head_dim), or else (..., token, width).
        heads: number of heads that the width is divided into, None if it isn't.

    Returns:
        For "token", "head" and "sample" (number,): an index, -1 where a number that is read several times belongs
        to several.
    """
    shape = first.tensor.shape
    cells = torch.arange(len(first.slots))
    row = cells // shape[-1]
    num_tokens = shape[-2] if len(shape) > 1 else 1
    if len(shape) == 4:
        head, sample = row // num_tokens % shape[1], row // num_tokens // shape[1]
    else:
        head, sample = cells % shape[-1] // (shape[-1] // (heads or 1)), row // num_tokens
    indices = {"token": row % num_tokens, "head": head, "sample": sample}
    lowest, highest = (
        {
            name: torch.zeros(int(first.numbers.max()) + 1, dtype=torch.long).scatter_reduce(
                0, first.numbers, index, reduce, include_self=False
            )
            for name, index in indices.items()
        }
        for reduce in ("amin", "amax")
    )
    return {name: torch.where(lowest[name] == highest[name], lowest[name], -1) for name in indices}


def name_axes(reading: Reading, owners: dict[str, Tensor]) -> None:
    """Give names to the axes along which one belonging changes, and nothing but the index along them changes it.

    Args:
        reading: gets its names.
        owners: as belongings() returns.
    """
    shape = reading.tensor.shape
    reading.names = [None] * len(shape)
    if reading.numbers is None or bool((reading.numbers < 0).any()):
        return
    for name, owner in owners.items():
        index = owner[reading.numbers].reshape(shape)
        for axis, size in enumerate(shape):
            along = index.movedim(axis, 0).reshape(size, -1)
            values = along[:, 0]
            alike = bool((along == values[:, None]).all())
            if size > 1 and alike and int(values.min()) >= 0 and len(values.unique()) == size:
                reading.names[axis] = (name, values.tolist())
