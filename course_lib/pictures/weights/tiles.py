"""Draw the tiles into which a blocked kernel cuts the scores, and what a mask lets it leave out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import card
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import HEADS, HIDDEN, PLAIN, STYLE
from course_lib.pictures.table import Label, Table
from course_lib.wording import counted

NOTE = "whole: nothing is hidden. mask: some scores are hidden. skip: all are hidden."
MOST = 8  # tiles in a row or a column


def draw_tiles(keep: Tensor, size: int, *, title: str | None = None) -> Picture:
    """Draw the tiles of a mask: those without a hidden score, those with some, and those that can be skipped.

    Args:
        keep: bool, (query, key), True = may attend.
        size: queries and keys per tile; the last tiles may be smaller. There may be 8 tiles a side.
        title: the title above the drawing.

    Raises:
        ValueError: If keep has a different shape, or size is below 1 or makes too many tiles.
        TypeError: If keep isn't a bool tensor, or size is not an integer.

    Example:
        >>> print(draw_tiles(torch.ones(6, 6, dtype=torch.bool).tril(), 2).description)
        The scores of 6 queries and 6 keys, in tiles of 2 by 2.
        3 tiles are computed as they are, 3 are computed and then masked, 3 are skipped.
    """
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
        kind = keep.dtype if isinstance(keep, Tensor) else type(keep).__name__
        raise TypeError(f"keep must be a bool tensor with True = may attend, got {kind}.")
    if keep.dim() != 2 or 0 in keep.shape:
        raise ValueError(f"keep must be (query, key), got {tuple(keep.shape)}: give the mask of one head.")
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"size must be an integer, got {size!r}.")
    if size < 1 or max(keep.shape) > MOST * size:
        raise ValueError(f"size must make 1 to {MOST} tiles a side of {max(keep.shape)} tokens, got {size}.")
    kinds = [[_kind(tile) for tile in rows.split(size, dim=1)] for rows in keep.cpu().split(size)]
    return Picture.of(Tiles(kinds, (keep.shape[0], keep.shape[1]), size, title or "Which tiles are computed"))


@dataclass(frozen=True)
class Tiles:
    """The scene: one kind per tile."""

    kinds: list[list[str]]
    shape: tuple[int, int]
    size: int
    title: str
    caption: str = "A row of tiles is a block of queries, a column a block of keys."

    def describe(self) -> str:
        every = [kind for row in self.kinds for kind in row]
        whole, masked, skipped = (every.count(kind) for kind in ("whole", "mask", "skip"))
        queries, keys = self.shape
        return (
            f"The scores of {queries} queries and {keys} keys, in tiles of {self.size} by {self.size}.\n"
            f"{counted(whole, 'tile')} {'is' if whole == 1 else 'are'} computed as they are, "
            f"{masked} {'is' if masked == 1 else 'are'} computed and then masked, "
            f"{skipped} {'is' if skipped == 1 else 'are'} skipped."
        )

    def draw(self) -> Canvas:
        colors = {"whole": HEADS[1], "mask": HEADS[0], "skip": HIDDEN}
        texts = {"whole": "whole", "mask": "mask", "skip": "skip"}
        cells = [[(texts[kind], colors.get(kind, PLAIN)) for kind in row] for row in self.kinds]
        above = [Label(str(self.size * column)) for column in range(len(self.kinds[0]))]
        rows = [f"queries from {self.size * row}" for row in range(len(self.kinds))]
        table = Table(cells, title="keys from", rows=rows, above=above, cell=STYLE.word_cell)
        return card(self.title, [NOTE], table.draw())


def _kind(tile: Tensor) -> str:
    if tile.all():
        return "whole"
    return "mask" if tile.any() else "skip"
