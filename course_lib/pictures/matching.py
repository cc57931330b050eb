"""Find the elements of one tensor in another: by their slots in shared memory, or by their values."""

from collections.abc import Sequence

import torch
from torch import Tensor


def slots_of(shape: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """Return the slot of memory in which each element of a tensor lies, in the tensor's shape."""
    slots = torch.tensor(offset)
    for size, step in zip(shape, stride, strict=True):
        slots = slots[..., None] + torch.arange(size) * step
    return slots


def positions_of(wanted: Tensor, known: Tensor) -> Tensor:
    """Return the first index of each wanted entry (n,) in known (m,), or -1 if it is absent."""
    ordered, order = known.sort(stable=True)
    rank = torch.searchsorted(ordered, wanted.contiguous()).clamp(max=len(known) - 1)
    return torch.where(ordered[rank] == wanted, order[rank], -1)


def positions_by_value(wanted: Tensor, known: Tensor) -> Tensor | None:
    """Return the same, (n,), for the elements of two tensors in reading order.

    None if values can't identify them: the values of known are not all different, or wanted holds others.
    """
    if wanted.dtype != known.dtype:
        return None
    values, other = _comparable(known), _comparable(wanted)
    if len(values.unique()) < len(values) or bool(values.isnan().any()):
        return None
    positions = positions_of(other, values)
    return None if bool((positions < 0).any()) else positions


def _comparable(tensor: Tensor) -> Tensor:
    """Return the same elements on the CPU, in a dtype that can be sorted."""
    tensor = tensor.detach().cpu().flatten()
    return tensor.double() if tensor.is_floating_point() else tensor.long()
