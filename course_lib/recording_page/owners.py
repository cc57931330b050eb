"""Which token and head each number belongs to: by the names of its axes, or by the memory that it shares."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.tracing import storage_of

from .joined_axes import parts_of
from .shown import Owner, ShownTensor

TOKENS = ("token", "query")
GROUP, WITHIN = " group", " in group"


def note_owners(tensors: Iterable[ShownTensor]) -> None:
    """Note for each cell the token and the head that it belongs to, as far as that is known.

    A view tells it of all tensors in its memory: as soon as a projection is viewed as heads, its columns have heads.
    """
    kept = [one for one in tensors if not one.writers]
    by_memory: dict[int, dict[int, Owner]] = {}
    for one in kept:
        one.owners = _by_axes(one)
        slots = by_memory.setdefault(storage_of(one.tensor), {})
        for slot, owner in zip(one.slots, one.owners, strict=True):
            if None not in owner:
                slots.setdefault(slot, owner)
    for one in kept:
        slots = by_memory[storage_of(one.tensor)]
        one.owners = [
            slots.get(slot, own) if None in own else own for slot, own in zip(one.slots, one.owners, strict=True)
        ]
    for one in kept:
        if "mixed" in one.axes:
            memory = storage_of(one.tensor)
            same = (other for other in kept if other.shape == one.shape and storage_of(other.tensor) == memory)
            one.meant = next((other for other in same if "mixed" not in other.axes and all(other.axes)), None)


def _by_axes(one: ShownTensor) -> list[Owner]:
    parts = [parts_of(name, size) for name, size in zip(one.axes, one.shape, strict=True)]
    names = [name for axis in parts for name, _ in axis]
    if len(set(names)) < len(names) or "mixed" in names:
        return [(None, None)] * len(one.indices)
    owners: list[Owner] = []
    for index in one.indices:
        place: dict[str, tuple[int, int]] = {}  # name -> where along it, and its size
        for axis, at in zip(parts, index, strict=True):
            for name, size in reversed(axis):
                at, place[name] = at // size, (at % size, size)
        if "head" + GROUP in place and "head" + WITHIN in place:
            (group, _), (within, size) = place["head" + GROUP], place["head" + WITHIN]
            place["head"] = group * size + within, size
        token = next((place[name][0] for name in TOKENS if name in place), None)
        owners.append((token, place["head"][0] if "head" in place else None))
    return owners
