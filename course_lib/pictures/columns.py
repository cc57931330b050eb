"""Labels and outlines over the columns of a table, and where to cut a table that is wider than a phone."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import ceil
from typing import NamedTuple


class Label(NamedTuple):
    """A text above or below some columns, replaced by short if it doesn't fit."""

    text: str
    columns: int = 1
    short: str = ""


class Box(NamedTuple):
    """A rectangle of cells that is outlined."""

    row: int
    column: int
    rows: int = 1
    columns: int = 1


def cuts_of(labels: Sequence[Label], count: int, most: int) -> list[int]:
    """Return the columns at which tables of at most `most` columns begin, and the end.

    A table is cut between two labels where the columns of each label fit, else evenly.
    """
    ends = list(accumulate(label.columns for label in labels))
    if not ends or max(label.columns for label in labels) > most or ends[-1] != count:
        size = ceil(count / ceil(count / most))
        return [*range(0, count, size), count]
    cuts = [0]
    for end, after in pairwise([*ends, count + most]):
        if after - cuts[-1] > most:
            cuts.append(end)
    return cuts


def labels_between(labels: Sequence[Label], start: int, stop: int) -> Iterator[Label]:
    """Yield the labels of the columns from start to stop."""
    begin = 0
    for label in labels:
        end = begin + label.columns
        if min(end, stop) > max(begin, start):
            yield label._replace(columns=min(end, stop) - max(begin, start))
        begin = end


def boxes_between(boxes: Sequence[Box], start: int, stop: int) -> Iterator[Box]:
    """Yield the part of each outline that lies in the columns from start to stop, counted from start."""
    for box in boxes:
        first, last = max(box.column, start), min(box.column + box.columns, stop)
        if last > first:
            yield box._replace(column=first - start, columns=last - first)
