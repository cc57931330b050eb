"""Find the step that last wrote each number that a step reads: a view and its base share memory."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from course_lib.tracing import storage_of

from .recorded_call import MOST_PAIRS, Table
from .shown_tensor import ShownTensor


class Memory:
    """The writes of a run so far."""

    def __init__(self) -> None:
        self._writes: dict[int, list[ShownTensor]] = {}  # storage -> what was written, in order

    def note(self, written: ShownTensor) -> None:
        """Note what a step wrote into memory that was there before."""
        self._writes.setdefault(storage_of(written.tensor), []).append(written)

    def trace(self, inputs: Sequence[ShownTensor], tables: Sequence[Table]) -> list[tuple[ShownTensor, Table]]:
        """Return what a step really read: numbers overwritten through another view are replaced by the new ones.

        Args:
            inputs: the tensors that the step was given, each as its own step made it.
            tables: the sources of the step's result among their elements.
        """
        read: list[tuple[ShownTensor, Table]] = []
        for tensor, table in zip(inputs, tables, strict=True):
            for owner, places in self.owners(tensor):
                read.append((owner, table if owner is tensor and places is None else _moved(table, owner, places)))
        return joined(read)

    def owners(self, tensor: ShownTensor) -> list[tuple[ShownTensor, Tensor | None]]:
        """Return the tensors that now hold a tensor's numbers, each with the index of every element in it, or -1.

        The indices are None if no number was overwritten since the tensor was made.
        """
        writes = self._writes.get(storage_of(tensor.tensor), ())
        later = [written for written in writes if written.step_number > tensor.step_number]
        if not later or len(tensor.stride) != len(tensor.shape):
            return [(tensor, None)]
        owned: list[tuple[ShownTensor, Tensor | None]] = []
        left = torch.ones(1, tensor.numel, dtype=torch.bool)
        for written in reversed(later):
            all_places = _places(tensor, written)
            left = left.expand(all_places.shape).clone() if len(left) < len(all_places) else left
            for free, places in zip(left, all_places.expand(left.shape), strict=True):
                owned.append((written, torch.where(free, places, -1)))
                free &= places < 0
        owned = [(written, places) for written, places in owned if places is not None and bool((places >= 0).any())]
        if not owned:
            return [(tensor, None)]
        rest = left.any(0)
        return [*owned, (tensor, torch.where(rest, torch.arange(tensor.numel), -1))] if bool(rest.any()) else owned


def joined(read: Iterable[tuple[ShownTensor, Table]]) -> list[tuple[ShownTensor, Table]]:
    """Return each tensor once, with all that was read of it."""
    tables: dict[str, tuple[ShownTensor, Table]] = {}
    for tensor, table in read:
        other = tables[tensor.key][1] if tensor.key in tables else table
        tables[tensor.key] = tensor, None if table is None or other is None else table | other
    return list(tables.values())


def _places(tensor: ShownTensor, written: ShownTensor) -> Tensor:
    """Return for each element of a tensor the element of another one in the same bytes, or -1.

    There are as many rows as elements of the other one fit into an element of the tensor, as two into a complex number.
    """
    if not tensor.numel or not written.numel:
        return torch.full((1, tensor.numel), -1)
    unit = min(tensor.dtype.itemsize, written.dtype.itemsize)
    size, ours = written.dtype.itemsize // unit, tensor.dtype.itemsize // unit
    begins, wanted = _slots(written) * size, _slots(tensor) * ours
    element_at = torch.full((int(max(begins.max(), wanted.max())) + max(size, ours),), -1)
    for part in range(size):
        element_at[begins + part] = torch.arange(written.numel)
    return torch.stack([element_at[wanted + part] for part in range(ours)])


def _slots(tensor: ShownTensor) -> Tensor:
    slots = torch.tensor(tensor.offset)
    for size, stride in zip(tensor.shape, tensor.stride, strict=True):
        slots = slots[..., None] + torch.arange(size) * stride
    return slots.flatten()


def _moved(table: Table, owner: ShownTensor, places: Tensor | None) -> Table:
    """Re-index a table by the elements of the tensor that now holds the numbers."""
    if table is None or places is None or len(table) * owner.numel > MOST_PAIRS:
        return None
    inside = places >= 0
    counts = torch.zeros(len(table), owner.numel, dtype=torch.int32)
    return counts.index_add_(1, places[inside], table[:, inside].int()) > 0
