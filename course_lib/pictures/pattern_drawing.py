"""Draws one pattern of (query, key) on matplotlib axes: colours, numbers, hatched cells, labels, colour bar."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .text_size import letters

LARGEST_WITH_NUMBERS = 8  # up to 8 x 8 cells hold their number
CELL = 0.52  # inches, a cell at its largest
LABELS = 0.7  # inches beside each pattern for its words
WIDTH = 7.5  # inches of a whole row of heads: what a notebook shows without shrinking it


class Scale(NamedTuple):
    """How numbers become colours and texts.

    Attributes:
        low, high: the ends of the colour scale.
        colors: name of matplotlib's colour map.
        write: the text of a number.
    """

    low: float
    high: float
    colors: str
    write: Callable[[float], str]


WEIGHTS = Scale(0.0, 1.0, "cividis", "{:.2f}".format)


def draw_pattern(
    ax: Axes,
    pattern: np.ndarray,
    hidden: np.ndarray,
    query_labels: list[str],
    key_labels: list[str],
    title: str,
    cell: float,
    scale: Scale = WEIGHTS,
) -> None:
    """Draw one pattern.

    Args:
        ax: where.
        pattern: (query, key).
        hidden: (query, key), bool: these cells are hatched instead.
        query_labels, key_labels: one a row, one a column.
        title: stands above.
        cell: a cell's side in inches.
        scale: colours and texts of the numbers.
    """
    small = max(pattern.shape) <= LARGEST_WITH_NUMBERS
    seaborn.heatmap(
        pattern,
        ax=ax,
        mask=hidden,
        vmin=scale.low,
        vmax=scale.high,
        cmap=scale.colors,
        square=True,
        cbar=False,
        annot=np.vectorize(scale.write, otypes=[str])(pattern) if small else False,
        annot_kws={"size": min(10.0, 20 * cell)},  # points; a number of four characters fits its cell
        fmt="",
        linewidths=1 if small else 0,
        linecolor="white",
        xticklabels=key_labels if small else "auto",
        yticklabels=query_labels if small else "auto",
        rasterized=not small,  # one image instead of a path a cell
    )
    for number in ax.texts:  # black or white, whichever is easier to read on its cell
        query, key = (int(place) for place in reversed(number.get_position()))
        number.set_color("black" if _luminance(ax.collections[0].to_rgba(pattern[query, key])) > 0.18 else "white")
    if not small:
        ax.set_xticks(ax.get_xticks(), [key_labels[int(t)] for t in ax.get_xticks()])
        ax.set_yticks(ax.get_yticks(), [query_labels[int(t)] for t in ax.get_yticks()])
    _hatch(ax, hidden)
    key_len = pattern.shape[1]
    ax.set(title=title, xlabel="key")
    crowded = max(letters(label) for label in key_labels) * 0.085 > cell * max(1, key_len / len(ax.get_xticks()))
    ax.tick_params(axis="x", rotation=45 if crowded else 0, length=0)
    ax.tick_params(axis="y", rotation=0, length=0)


def add_bar(
    figure: Figure, ax: Axes, beside: np.ndarray | Sequence[Axes], label: str, ticks: Sequence[float] | None = None
) -> None:
    """Put the colour bar of the pattern on ax beside some axes; ticks where matplotlib likes if None."""
    bar = figure.colorbar(ax.collections[0], ax=beside, ticks=ticks, label=label, shrink=0.7, fraction=0.05)
    bar.solids.set_rasterized(True)  # one small image instead of 256 rectangles
    bar.outline.set_visible(False)


def svg_of(figure: Figure) -> str:
    """The figure as SVG, without a date and without the XML prologue, which names an address."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "attention-course"})
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]


def _hatch(ax: Axes, hidden: np.ndarray) -> None:
    """Hatch hidden cells, neighbours in one strip, so that the hatching has no seams."""
    for query, row in enumerate(hidden):
        for first, last in _runs(row):
            strip = Rectangle((first, query), last - first, 1, facecolor="#F3F4F6", edgecolor="#9CA3AF", hatch="///")
            strip.set_linewidth(0)
            ax.add_patch(strip)


def _luminance(color: tuple[float, float, float, float]) -> float:
    """Relative luminance of an sRGB colour, as the contrast rules of the web define it; 0.18 is where black wins."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _runs(row: np.ndarray) -> list[tuple[int, int]]:
    """The stretches of True in a row of bools: (first, one past the last)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
