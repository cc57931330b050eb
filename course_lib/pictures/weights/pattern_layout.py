"""Arrange tables of one shape in a picture: how many side by side and how large, in inches, with room for labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from course_lib.pictures.drawing_width import is_narrow
from course_lib.pictures.figures import INCH, USUAL, WIDTH, inches
from course_lib.pictures.style import TextStyle

from .pattern import Pattern

CELL = 0.54  # the largest cell
READABLE = 0.4  # the smallest cell in which a number is readable
SMALLEST = 1.5  # the smallest table without numbers
LONGEST_LABEL, LONGEST_WORD = 1.4, 2.0  # lengths of a token label and of a title
LABEL_HEIGHT, AXIS_LABEL = 0.18, 0.25  # heights of a token label, and of "query" and "key"
GAP = 0.15
LABEL = TextStyle(USUAL)
ON_A_PHONE = 3.4  # width of a picture
SINE = 0.71  # of 45 degrees, the angle of rotated labels


@dataclass(frozen=True)
class PatternLayout:
    """Sizes that all tables of a picture share."""

    columns: int  # tables side by side
    cell: float  # side of a cell
    height: float  # of a table
    width: float
    slot: float  # width of a table with its title
    row_room: float  # for the labels of its rows
    label_every: int  # interval between labelled rows and columns, because cells may be lower than a line of text
    rotated: bool  # whether key labels are rotated, because they are wider than the room for them
    column_room: float  # for the labels of the columns

    @classmethod
    def of(cls, patterns: Sequence[Pattern], narrowest: float | None) -> PatternLayout:
        """Put as many readable tables side by side as fit, in rows of equal length.

        narrowest is the smallest side of a cell; if None, it is the smallest that fits usual labels without rotation.
        """
        first, count = patterns[0], len(patterns)
        query_len, key_len = first.values.shape
        row_room, key_room = _widest(map(short, first.queries)) + 0.1, _widest(map(short, first.keys)) + 0.04
        if not first.with_values:
            narrowest = SMALLEST / key_len
        elif narrowest is None:
            narrowest = key_room if READABLE < key_room < CELL else READABLE
        word = min(LONGEST_WORD, _widest(word for pattern in patterns for word in pattern.title.split()))

        def room(columns: int) -> float:
            labelled = sum(pattern.label_rows for pattern in patterns[:columns])
            return figure_width() - AXIS_LABEL - labelled * row_room - (columns - 1) * GAP

        columns = count
        while columns > 1 and room(columns) < columns * max(narrowest * key_len, word):
            columns -= 1
        columns = ceil(count / ceil(count / columns))
        cell = min(CELL, room(columns) / (columns * max(query_len, key_len)))
        every = ceil(LABEL_HEIGHT / cell)
        rotated = key_room > cell * every
        height, width = cell * query_len, cell * key_len
        column_room = SINE * key_room + 0.12 if rotated else LABEL_HEIGHT
        return cls(columns, cell, height, width, max(width, word), row_room, every, rotated, column_room)

    def is_readable(self, pattern: Pattern) -> bool:
        """Say whether a cell has room for its number, if numbers are drawn."""
        return self.cell >= READABLE or not pattern.with_values

    def whole_width(self, patterns: Sequence[Pattern]) -> float:
        """Return the width of a row of tables with their labels."""
        return AXIS_LABEL + sum(self.slot + GAP + pattern.label_rows * self.row_room for pattern in patterns)


def figure_width() -> float:
    """Return the width in inches that tables may fill."""
    return ON_A_PHONE if is_narrow() else WIDTH


def short(label: str) -> str:
    """Return a token's label, cut if it is too long."""
    return LABEL.clip(label, LONGEST_LABEL * INCH)


def _widest(texts: Iterable[str]) -> float:
    return max(map(inches, texts), default=0.0)
