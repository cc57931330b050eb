"""Tiles: softmax over keys that come tile by tile, with a largest score, a sum and a context that are corrected."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import column, flow
from course_lib.pictures.picture import Panels, Picture
from course_lib.pictures.style import HEADING, NOTE, PLAIN, STYLE, head_color
from course_lib.pictures.table import Table, labels_of

from .figure import Figure

TITLE = "How can softmax begin before it has seen all scores?"
SCORES = (1.0, 0.5, -1.0, 2.0, 0.0, 1.5, 4.0, 3.0, -0.5, 1.0, 2.5, 0.5)  # of one query; the largest comes late
VALUES = (3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0, 6.0, -5.0, 3.0, 5.0, -8.0)  # one number of each key's value
SIZES = 2, 3, 4, 6, 12  # of a tile, in keys
SIZE = 3  # at first, and in the picture


@dataclass(frozen=True)
class Running:
    """What is kept of the tiles so far.

    Attributes:
        tile: The number of the last tile.
        largest: The largest score so far.
        total: The sum of exp(score - largest) so far.
        weighted: The sum of exp(score - largest) * value so far.
        factor: What the sums of the tiles before were multiplied by.
    """

    tile: int
    largest: float
    total: float
    weighted: float
    factor: float

    @property
    def context(self) -> float:
        return self.weighted / self.total

    @property
    def said(self) -> str:
        corrected = f", the sums before times {self.factor:.3f}" if self.tile else ""
        return f"largest {self.largest:g}, sum {self.total:.3f}{corrected}, context {self.context:.3f}"

    def describe(self) -> str:
        return f"After tile {self.tile}: {self.said}."

    @property
    def cells(self) -> list[tuple[str, str]]:
        """The scores so far, of which those of the last tile are in colour."""
        first, last = SIZE * self.tile, SIZE * (self.tile + 1)
        return [(f"{score:g}", head_color(0) if key >= first else PLAIN) for key, score in enumerate(SCORES[:last])]

    def draw(self) -> Canvas:
        names = labels_of([f"key {key}" for key in range(len(self.cells))])
        table = Table([self.cells], above=names, cell=STYLE.word_cell)
        return column([flow([(f"Tile {self.tile}", HEADING), (self.said, NOTE)]), table.draw()], STYLE.tight)


def running(scores: Tensor, values: Tensor, size: int) -> list[Running]:
    """Read the keys of one query tile by tile; return what is kept after each.

    Args:
        scores, values: (key), the scores, and one number of each key's value.
        size: The keys of a tile; the last one may have fewer.

    Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
    """
    largest, total, weighted, found = float("-inf"), 0.0, 0.0, []
    for tile, (some, held) in enumerate(zip(scores.split(size), values.split(size), strict=True)):
        new = max(largest, float(some.max()))
        factor = float(torch.tensor(largest - new, dtype=torch.float64).exp())
        powers = (some - new).exp()
        total, weighted = total * factor + float(powers.sum()), weighted * factor + float(powers @ held)
        largest = new
        found.append(Running(tile, largest, total, weighted, factor))
    return found


def tiles() -> Figure:
    """Return the figure in which the keys of one query pass in tiles, and three numbers stand for all tiles before.

    The size of a tile is to choose, and one of three mistakes.

    Example:
        >>> tiles().save("tiles.html")
        PosixPath('tiles.html')
    """
    scores, values = (torch.tensor(numbers, dtype=torch.float64) for numbers in (SCORES, VALUES))
    whole = float(scores.softmax(0) @ values)
    data = {"scores": SCORES, "values": VALUES, "sizes": SIZES, "size": SIZE, "whole": whole}
    steps = running(scores, values, SIZE)
    note = f"In colour: the tile that is read. Softmax over all {len(SCORES)} scores at once gives {whole:.3f}."
    caption = "A larger score that comes late shrinks all sums before it by one factor; nothing is read twice."
    return Figure(TITLE, ("tiles.js",), data, Picture.of(Panels(steps, TITLE, note, caption)))
