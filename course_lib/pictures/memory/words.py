"""What a memory picture shows, in words: beside each panel, in the alternative text, as title and caption."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .numbers import number_text
from .part import Row
from .reading import Reading

LISTED = 6  # stretches of slots, or numbers, read out before "and so on"


def title_of(readings: Sequence[Reading]) -> str:
    """How many tensors there are, and how many rows of memory they lie in."""
    if len(readings) == 1:
        again = "more than once" if _reads_again(readings[0]) else "in another order"
        return f"One row of memory, read {'from left to right' if readings[0].in_order else again}"
    memories = len({reading.place for reading in readings})
    return f"{len(readings)} tensors, {'one row' if memories == 1 else f'{memories} rows'} of memory"


def caption_of(readings: Sequence[Reading]) -> str:
    """How to read the lines, and who has memory of its own."""
    back = any(bool((reading.slots.diff() < 0).any()) for reading in readings)
    again = any(_reads_again(reading) for reading in readings)
    caption = {
        (False, False): "No two lines cross: reading goes through memory from left to right.",
        (True, False): "Where lines cross, reading jumps to and fro in memory.",
        (False, True): "Where lines meet, several cells read one slot.",
        (True, True): "Where lines cross, reading jumps to and fro; where they meet, several cells read one slot.",
    }[back, again]
    copies = [i for i, reading in enumerate(readings) if i and reading.shares_with is None]
    if len(readings) == 1:
        return caption
    if not copies:
        return f"{caption} No number moves: there is one row of memory."
    if len(copies) > 1:
        return f"{caption} {', '.join(readings[i].label for i in copies)}: each has memory of its own."
    before, copy = readings[copies[0] - 1], readings[copies[0]]
    caption += f" {copy.label} has memory of its own"
    known = copy.numbers is not None and before.numbers is not None
    if known and straight_along(copy) and torch.equal(copy.numbers, before.numbers):
        caption += f", where the numbers lie in the order in which {before.label} reads them"
    return caption + "."


def straight_along(reading: Reading) -> bool:
    """Whether reading goes through all of the memory, slot by slot."""
    return torch.equal(reading.slots, torch.arange(len(reading.memory)))


def memory_note(reading: Reading) -> str:
    """Whether a tensor is contiguous, whose memory it reads, and how much of it."""
    note = "contiguous" if reading.tensor.is_contiguous() else "not contiguous"
    note += f", same memory as {reading.shares_with}" if reading.shares_with else ", memory of its own"
    read, slots, cells = len(reading.slots.unique()), len(reading.memory), len(reading.slots)
    if read < slots:
        note += f", reads {read} of {slots} slots"
    if read < cells:
        note += f", {cells} cells read {read} slot{'s' if read > 1 else ''}"
    return note


def steps_note(reading: Reading) -> str:
    """What the strides say: "slots to the next head: 2, token: 4, number: 1"; "" if no axis has two places."""
    steps = []
    sizes_and_strides = zip(reading.tensor.shape, reading.tensor.stride(), strict=True)
    for axis, (size, stride) in enumerate(sizes_and_strides):
        if size > 1:
            unnamed = "number" if axis == len(reading.names) - 1 else f"on axis {axis}"
            name = reading.names[axis][0] if reading.names[axis] else unnamed
            steps.append(f"{name}: {stride}" + ("" if stride else " (the same slot)"))
    return f"slots to the next {', '.join(steps)}" if steps else ""


def part_note(reading: Reading, row: Row) -> str:
    """How many of the slots and cells are drawn, "" if all are."""
    counts = [
        f"{len(drawn):,} of {len(whole):,} {name}"
        for drawn, whole, name in ((row.slots, reading.memory, "slots"), (row.cells, reading.slots, "cells"))
        if len(drawn) < len(whole)
    ]
    return f"{' and '.join(counts)} drawn" if counts else ""


def follow_note(reading: Reading, number: int) -> str:
    """Where the followed number lies and at which place it is read, both counted from 0."""
    if reading.numbers is None:
        return "can't be followed"
    cells = reading.cells_with(number).tolist()
    if not cells:
        return "not read"
    places = ", ".join(map(str, cells[:4])) + (" and so on" if len(cells) > 4 else "")
    return f"slot {int(reading.slots[cells[0]])}, read at place{'s' if len(cells) > 1 else ''} {places}"


def sentence_of(reading: Reading, part: str) -> str:
    """One tensor in words: layout, memory, the order in which slots are read, strides, and what of it is drawn."""
    shape, stride = tuple(reading.tensor.shape), reading.tensor.stride()
    text = f"{reading.label}, shape {shape}, stride {stride}: {memory_note(reading)}"
    if reading.shares_with is None:
        numbers = [number_text(number) for number in reading.memory[: LISTED + 1].tolist()]
        text += f", holding {_listed(numbers)}"
    text += "; read slot by slot" if straight_along(reading) else f"; read as slots {_listed(_runs(reading))}"
    return "; ".join(filter(None, (text, steps_note(reading), part))) + "."


def follow_sentence(readings: Sequence[Reading], number: int, owner: str) -> str:
    """The journey of one number: whose it is, and its slot and place in each tensor."""
    first = readings[0]
    text = number_text(first.memory[int(first.slots[first.cells_with(number)[0]])].item())
    journey: dict[str, list[str]] = {}
    for reading in readings:
        journey.setdefault(follow_note(reading, number), []).append(reading.label)
    stations = "; ".join(f"{note} in {' and '.join(labels)}" for note, labels in journey.items())
    return f"Follow {text}{f' ({owner})' if owner else ''}, counting from 0: {stations}."


def _runs(reading: Reading) -> list[str]:
    """The slots in the order they are read, neighbours as one: "0 to 1", "4 to 5"."""
    breaks = (reading.slots.diff() != 1).nonzero().flatten()[: LISTED + 1] + 1
    starts, ends = [0, *breaks.tolist()], [*breaks.tolist(), len(reading.slots)]
    runs = [(int(reading.slots[a]), int(reading.slots[b - 1])) for a, b in zip(starts, ends, strict=True)]
    return [str(first) if first == last else f"{first} to {last}" for first, last in runs]


def _reads_again(reading: Reading) -> bool:
    """Whether several cells read one slot."""
    return len(reading.slots.unique()) < len(reading.slots)


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts[:LISTED]) + (" and so on" if len(texts) > LISTED else "")
