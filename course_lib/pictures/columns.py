"""Divide the columns of a table that is wider than a phone into tables below each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .table import Box, Label, Table


def divided(table: Table, most: int) -> list[Table]:
    """Return tables of at most `most` columns each, cut between two labels where each label's columns fit."""
    count = len(table.cells[0])
    cuts = list(pairwise(_cuts(table.below or table.above, count, max(1, most))))
    return [
        replace(
            table,
            cells=[cells[start:stop] for cells in table.cells],
            title=table.title if start == 0 else "",
            above=list(_between(table.above, start, stop)),
            below=list(_between(table.below, start, stop)),
            outlined=list(_inside(table.outlined, start, stop)),
            marks=table.marks if stop == count else (),
            notes=table.notes if stop == count else (),
        )
        for start, stop in cuts
    ]


def _cuts(labels: Sequence[Label], count: int, most: int) -> list[int]:
    """Return the columns at which tables begin, and the end."""
    ends = list(accumulate(label.columns for label in labels))
    if not ends or max(label.columns for label in labels) > most or ends[-1] != count:
        size = ceil(count / ceil(count / most))
        return [*range(0, count, size), count]
    cuts = [0]
    for end, after in pairwise([*ends, count + most]):
        if after - cuts[-1] > most:
            cuts.append(end)
    return cuts


def _between(labels: Sequence[Label], start: int, stop: int) -> Iterator[Label]:
    begin = 0
    for label in labels:
        end = begin + label.columns
        if min(end, stop) > max(begin, start):
            yield label._replace(columns=min(end, stop) - max(begin, start))
        begin = end


def _inside(boxes: Sequence[Box], start: int, stop: int) -> Iterator[Box]:
    for box in boxes:
        first, last = max(box.column, start), min(box.column + box.columns, stop)
        if last > first:
            yield box._replace(column=first - start, columns=last - first)
