"""Draws curves with matplotlib on logarithmic axes, each with its name at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .drawing import FAINT, FOLLOW, LINE
from .plot_checks import Curve
from .plot_frame import EDGE, LONGEST, ROW, USUAL, frame, in_lines, place, plain, size, tick, wide, write, write_lines

# A colour and a shape for each curve, because colour is never alone; each colour 4.5 to 1 on white or more
LOOKS = tuple(
    {"color": color, "marker": marker, "markersize": 6, "linewidth": 1.8}
    for color, marker in zip(
        ("#0B5CAD", "#B4540A", "#0A7D5A", "#8A3FA0", "#1F2328", "#6B6A00", "#C0307A"), "os^DvPX", strict=True
    )
)
DASHED = {"color": FOLLOW, "linestyle": (0, (4, 2)), "linewidth": 1.8}
LOWEST = 2.9  # inches, the axes at least


class Drawn(NamedTuple):
    """A curve, how its line looks, and the lines of text at its end."""

    curve: Curve
    look: dict[str, Any]
    label: list[str]


def lines_figure(
    curves: Mapping[str, Curve], limits: Mapping[str, Curve], title: str, x: str, y: str, note: str
) -> Figure:
    """Draw curves, and limits as dashes.

    Args:
        curves, limits: name -> {x: y}, sorted by x.
        title, x, y, note: texts above everything, below the axes, above the axes, at the bottom.

    Returns:
        Figure.
    """
    looks = [*LOOKS[: len(curves)], *[DASHED] * len(limits)]
    drawn = []
    for (name, curve), look in zip([*curves.items(), *limits.items()], looks, strict=True):
        label = f"{name}: {plain(curve[max(curve)])}"
        drawn.append(Drawn(curve, look, in_lines(label, LONGEST)))
    right = 0.7 + max(wide(line) for one in drawn for line in one.label)
    height = max(LOWEST, ROW * sum(len(one.label) for one in drawn))
    ax = frame(title, note, left=0.6, right=right, above=1.7 * ROW, height=height, below=2.6 * ROW)
    for one in drawn:
        ax.loglog(list(one.curve), list(one.curve.values()), **one.look)
    _name_axes(ax, drawn, x, y)
    _name_ends(ax, drawn)
    return ax.figure


def _name_axes(ax: Axes, drawn: Sequence[Drawn], x: str, y: str) -> None:
    """Ticks where something was measured, if these are whole numbers, and else at round ones."""
    all_x = sorted({at for one in drawn for at in one.curve})
    all_y = [at for one in drawn for at in one.curve.values()]
    low, high = min(all_y) / 1.4, max(all_y) * 1.4
    ax.set(xlim=(all_x[0] / 1.1, all_x[-1] * 1.1), ylim=(low, high))
    ax.minorticks_off()
    some_x = (
        all_x[:: math.ceil(len(all_x) / 8)] if all(at == round(at) for at in all_x) else round_numbers(*ax.get_xlim())
    )
    some_y = round_numbers(low, high)
    ax.set_xticks(some_x, [size(at) for at in some_x])
    ax.set_yticks(some_y, [tick(at) for at in some_y])
    ax.set_xlabel(x, size=USUAL)
    write(ax.figure, EDGE, ax.bbox.y1 / ax.figure.dpi + 0.9 * ROW, y)
    ax.grid(axis="y", color=FAINT)
    ax.spines["left"].set_visible(False)


def round_numbers(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers, or 1, 2, 5, 10, 20, 50, ... where there are few of those."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    parts = (1, 2, 5) if len(powers) < 5 else (1,)
    found = [float(f"{part}e{power}") for power in powers for part in parts]
    return [number for number in found if low <= number <= high]


def _name_ends(ax: Axes, drawn: Sequence[Drawn]) -> None:
    """Write each curve's name to the right of its end, moved apart where two ends are near each other."""
    _, bottom, right, top = (side / ax.figure.dpi for side in ax.bbox.extents)
    ends = sorted(((*place(ax, *max(one.curve.items())), one) for one in drawn), key=lambda end: end[1])
    middles = apart([y for _, y, _ in ends], [ROW * len(one.label) for *_, one in ends], bottom, top)
    for (x, y, one), middle in zip(ends, middles, strict=True):
        mark = right + 0.36
        to_name = ((x + 0.1, right, mark - 0.18), (y, y, middle))
        wide_mark = ((mark - 0.12, mark + 0.12), (middle, middle))
        pieces = [(([mark], [middle]) if "marker" in one.look else wide_mark, one.look)]
        if len(one.curve) > 1:  # a single point is found by its shape; a line to it would look like a curve
            pieces.append((to_name, {"color": LINE, "linewidth": 0.7}))
        for (across, up), look in pieces:
            ax.figure.add_artist(Line2D(across, up, transform=ax.figure.dpi_scale_trans, **look))
        write_lines(ax.figure, mark + 0.2, middle, one.label)


def apart(middles: Sequence[float], heights: Sequence[float], bottom: float, top: float) -> list[float]:
    """Move labels up and down until none overlaps its neighbour or leaves the axes.

    Args:
        middles: where each would like to be, lowest first.
        heights: of each; together no more than there is between bottom and top.
        bottom, top: where they must lie between.

    Returns:
        Where each may be: half way between all pushed up and all pushed down.
    """
    steps = [(one + other) / 2 for one, other in pairwise(heights)]

    def pushed_up(places: Sequence[float], lowest: float) -> list[float]:
        pushed = [max(places[0], lowest)]
        for at, step in zip(places[1:], steps, strict=True):
            pushed.append(max(at, pushed[-1] + step))
        return pushed

    def pushed_down(places: Sequence[float], highest: float) -> list[float]:
        pushed = [min(places[-1], highest)]
        for at, step in zip(places[-2::-1], steps[::-1], strict=True):
            pushed.append(min(at, pushed[-1] - step))
        return pushed[::-1]

    both = zip(pushed_up(middles, -math.inf), pushed_down(middles, math.inf), strict=True)
    halfway = [(up + down) / 2 for up, down in both]
    return pushed_down(pushed_up(halfway, bottom + heights[0] / 2), top - heights[-1] / 2)
