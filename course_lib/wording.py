"""Lists, counts and ranges in sentences: "view and transpose", "3 heads", "0 to 3"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby, islice

_ADDRESS = re.compile(r"[ -]at[ -]0x[0-9A-Fa-f]{4,16}\b")


def listed(names: Iterable[object]) -> str:
    """Join items as in a sentence: "view", "view and transpose", "view, transpose and reshape"; no items are ""."""
    *others, last = list(map(str, names)) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def first_of(names: Iterable[object], most: int, total: int) -> str:
    """List the first of many items and count the rest: "0, 1, 2, 3 and 20 more"."""
    texts = ", ".join(map(str, islice(names, most)))
    return f"{texts} and {total - most:,} more" if total > most else texts


def counted(count: int, noun: str) -> str:
    """Write a count with its noun: "1 head", "3 heads", "4,608 slots"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def stretches(integers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last integer of each consecutive run: 0, 1, 2, 5 are (0, 2) and (5, 5)."""
    runs = groupby(enumerate(integers), key=lambda pair: pair[1] - pair[0])
    ends = ([integer for _, integer in run] for _, run in runs)
    return [(run[0], run[-1]) for run in ends]


def span(first: int, last: int) -> str:
    """Write a range of integers: "3" or "0 to 3"."""
    return str(first) if first == last else f"{first} to {last}"


def without_addresses(text: str) -> str:
    """Leave out where objects lie in memory, which is another place in every run: "<K object at 0x7f3a>" is one."""
    return _ADDRESS.sub("", text)


def sentence(text: str) -> str:
    """Capitalize the first letter of a text and keep the rest."""
    return text[:1].upper() + text[1:]
