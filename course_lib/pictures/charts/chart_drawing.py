"""Draw lines and bars with matplotlib, between a title and a note."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import ceil, inf, log10
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from course_lib.pictures.figures import SMALL, WIDTH, in_lines, inch_axes, inches, text_height, write, write_title
from course_lib.pictures.style import FAINT, HEADS, HIGHLIGHT, INK, LINE, QUIET

from .measurements import Bar, Curve, length, three_digits

# A colour and a marker for each curve, because colour alone is not enough; each has a contrast of 4.5 to 1 or more
COLORS = ("#0B5CAD", "#B4540A", "#0A7D5A", "#8A3FA0", "#1F2328", "#6B6A00", "#C0307A")
MARKERS = "os^DvPX"
DASHES = (4, 2), (1.5, 1.5), (8, 2, 1.5, 2)  # one pattern per limit, in line widths
FIRST, OTHERS = "#C9CFD6", HEADS[1]  # colours of the bar that the others are compared with, and of the others
# Inches
PLOT = 4.8, 2.9  # width and height of a line plot's axes
LONGEST = 2.6  # longest name on one line
BAR, BAR_PITCH = 0.24, 0.36  # height of a bar, and the least distance from one to the next
GAP = 0.12
MOST_TICKS = 8
TICKS = 0.3  # height of ticks and labels below the axes


def draw_lines(
    curves: Mapping[str, Curve],
    limits: Mapping[str, Curve],
    title: str,
    xlabel: str,
    ylabel: str,
    note: str,
    logarithmic: bool,
    figure: Figure,
) -> None:
    """Draw curves with markers, limits as dashed lines, and names beside them in the order of their last points."""
    top = write(figure, 0, write_title(figure, title, WIDTH) + GAP / 2, ylabel) + GAP
    ax = inch_axes(figure, 0.5, top, *PLOT)
    for (name, curve), color, marker in zip(curves.items(), COLORS, MARKERS, strict=False):
        _draw_line(ax, name, curve, color=color, marker=marker, linestyle="-" if len(curve) > 1 else "none")
    for (name, curve), dashes in zip(limits.items(), cycle(DASHES), strict=False):
        _draw_line(ax, name, curve, color=HIGHLIGHT, linestyle=(0, dashes))
    lines = sorted(ax.lines, key=lambda line: -np.asarray(line.get_ydata())[-1])  # by their right ends, from the top
    ax.legend(handles=lines, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, borderaxespad=0)
    draw_ticks(ax, logarithmic)
    ax.set_xlabel(xlabel, color=INK)
    bottom = top + PLOT[1] + TICKS + text_height(xlabel) + GAP
    write(figure, 0, bottom, in_lines(note, WIDTH, SMALL), size=SMALL, color=QUIET)


def draw_bars(
    bars: Mapping[str, Bar], labels: Sequence[str], ratios: Sequence[str], title: str, note: str, figure: Figure
) -> None:
    """Draw bars from zero, with names on the left, labels at their ends and any ratios in a column."""
    names, values = [in_lines(name, LONGEST) for name in bars], list(bars.values())
    left, pitch = max(map(inches, names)) + GAP, max(BAR_PITCH, *(text_height(name) + GAP for name in names))
    width, height = WIDTH - left, pitch * len(bars)
    room = max(map(inches, labels)) + max(map(inches, ["", *ratios])) + 4 * GAP
    top = write_title(figure, title, WIDTH) + GAP
    ax = inch_axes(figure, left, top, width, height)
    colors = [FIRST if ratios and row == 0 else OTHERS for row in range(len(bars))]
    interval = [[bar.middle - bar.low for bar in values], [bar.high - bar.middle for bar in values]]
    middles, thin = [bar.middle for bar in values], {"ecolor": INK, "elinewidth": 1.2}
    drawn = ax.barh(range(len(bars)), middles, BAR / pitch, xerr=interval, error_kw=thin, color=colors)
    ax.bar_label(drawn, labels=labels, padding=6, color=INK)
    for row, ratio in enumerate(ratios):
        ax.text(1, row, ratio, transform=ax.get_yaxis_transform(), ha="right", va="center", weight="bold")
    longest = max(bar.high for bar in values)
    ax.set(xlim=(0, longest * width / (width - room)), ylim=(len(bars) - 0.5, -0.5), xticks=[])
    ax.set_yticks(range(len(bars)), names, color=INK)
    _bare(ax, "left")
    write(figure, 0, top + height + GAP, in_lines(note, WIDTH, SMALL), size=SMALL, color=QUIET)


def _draw_line(ax: Axes, name: str, curve: Curve, **look: Any) -> None:
    x, y = list(curve), list(curve.values())
    ax.plot(x, y, label=in_lines(f"{name}: {three_digits(y[-1])}", LONGEST), linewidth=1.8, **look)


def draw_ticks(ax: Axes, logarithmic: bool = True) -> None:
    """Put ticks on logarithmic axes, or on linear ones that begin at 0, and remove the frame."""
    if logarithmic:
        _draw_log_ticks(ax)
    else:
        ax.set(xlim=(0, None), ylim=(0, None))
    ax.tick_params(labelsize=SMALL)
    ax.grid(axis="y", color=FAINT)
    _bare(ax, "bottom")


def _draw_log_ticks(ax: Axes) -> None:
    """Make both axes logarithmic, with ticks at the measured points if they are integers, or else at round numbers."""
    ax.set(xscale="log", yscale="log")
    measured = sorted({x for line in ax.lines for x in np.asarray(line.get_xdata()).tolist()})
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 1e3 else (1,)))
        axis.set_major_formatter(lambda number, _: f"{number:,.10g}")
    ax.minorticks_off()
    low, high = ax.get_xlim()
    round_numbers = {x: f"{x:,.10g}" for x in ax.xaxis.get_majorticklocs().tolist() if low <= x <= high}
    labels = round_numbers
    if all(x == round(x) for x in measured):
        labels = {x: length(x) for x in measured[:: ceil(len(measured) / MOST_TICKS)]}
    some = _that_fit(labels, log10(high / low) / ax.bbox.width * ax.figure.dpi)
    ax.set_xticks(some, [labels[x] for x in some])
    ax.set_xlim(low, high)


def _that_fit(labels: Mapping[float, str], decades: float) -> list[float]:
    """Return the positions whose labels don't touch on an axis of so many decades an inch."""
    kept: list[float] = []
    end = -inf
    for x in labels:
        half = decades * (inches(labels[x], SMALL) + GAP / 4) / 2
        if log10(x) - half > end:
            kept.append(x)
            end = log10(x) + half
    return kept


def _bare(ax: Axes, axis: str) -> None:
    """Remove ticks and frame, except for the line of one axis."""
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.spines[axis].set(visible=True, color=LINE)
