"""Which token and head each number belongs to: by the names of its axes, or by the memory that it shares."""

from collections.abc import Iterable

from course_lib.tracing import storage_of

from .joined_axes import parts_of
from .shown_tensor import Owner, ShownTensor

TOKENS = ("token", "query")
GROUP, WITHIN = " group", " in group"


def note_owners(tensors: Iterable[ShownTensor]) -> None:
    """Note for each cell the token and the head that it belongs to, as far as that is known.

    A view tells it of all tensors in its memory: as soon as a projection is viewed as heads, its columns have heads.
    """
    kept = [tensor for tensor in tensors if not tensor.writers]
    by_memory: dict[int, dict[int, Owner]] = {}
    for tensor in kept:
        tensor.owners = _by_axes(tensor)
        slots = by_memory.setdefault(storage_of(tensor.tensor), {})
        for slot, owner in zip(tensor.slots, tensor.owners, strict=True):
            if None not in owner:
                slots.setdefault(slot, owner)
    for tensor in kept:
        slots = by_memory[storage_of(tensor.tensor)]
        known = zip(tensor.slots, tensor.owners, strict=True)
        tensor.owners = [slots.get(slot, owner) if None in owner else owner for slot, owner in known]
    for tensor in kept:
        if "mixed" in tensor.axes:
            memory = storage_of(tensor.tensor)
            same = (other for other in kept if other.shape == tensor.shape and storage_of(other.tensor) == memory)
            tensor.meant = next((other for other in same if "mixed" not in other.axes and all(other.axes)), None)


def _by_axes(tensor: ShownTensor) -> list[Owner]:
    parts = [parts_of(name, size) for name, size in zip(tensor.axes, tensor.shape, strict=True)]
    names = [name for axis in parts for name, _ in axis]
    if len(set(names)) < len(names) or "mixed" in names:
        return [(None, None)] * len(tensor.indices)
    owners: list[Owner] = []
    for index in tensor.indices:
        position: dict[str, tuple[int, int]] = {}  # name -> where along it, and its size
        for axis, at in zip(parts, index, strict=True):
            for name, size in reversed(axis):
                at, position[name] = at // size, (at % size, size)
        if "head" + GROUP in position and "head" + WITHIN in position:
            (group, _), (within, size) = position["head" + GROUP], position["head" + WITHIN]
            position["head"] = group * size + within, size
        token = next((position[name][0] for name in TOKENS if name in position), None)
        owners.append((token, position["head"][0] if "head" in position else None))
    return owners
