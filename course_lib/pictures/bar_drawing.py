"""Draws bars with matplotlib: names on the left, numbers at their ends, ratios in a column."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from .drawing import INK
from .pattern_drawing import WIDTH
from .plot_checks import Bar
from .plot_frame import EDGE, LONGEST, ROW, frame, in_lines, place, plain, ratio, wide, write, write_lines
from .plot_frame import counted as counted_things

FIRST, OTHERS = "#C9CFD6", "#6DB7E4"
THICK = 0.24  # inches, a bar


def bars_figure(bars: Mapping[str, Bar], title: str, unit: str, note: str, *, counted: bool = False) -> Figure:
    """Draw bars from zero, the first in grey where the others are compared with it.

    Args:
        bars: name -> Bar.
        title, unit, note: text above, unit of the numbers, text below.
        counted: whether the numbers are whole ones that stand for themselves.

    Returns:
        Figure.
    """
    names = [in_lines(name, LONGEST) for name in bars]
    values = [bar.middle for bar in bars.values()]
    numbers = [counted_things(value, unit) if counted else f"{plain(value)} {unit}" for value in values]
    ratios = ["" if counted else ratio(bar.ratio) if number else "1" for number, bar in enumerate(bars.values())]
    steps = [max(THICK + 0.12, ROW * len(name) + 0.08) for name in names]  # inches from bar to bar
    left = EDGE + 0.1 + max(wide(line) for name in names for line in name)
    right = EDGE + 0.3 + max(map(wide, numbers)) + max(map(wide, ratios))
    ax = frame(title, note, left=left, right=right, above=0.5 * ROW, height=sum(steps), below=0.8 * ROW)
    ax.set(xlim=(0, max(bar.high for bar in bars.values())), ylim=(sum(steps), 0), xticks=[], yticks=[])
    ax.spines["bottom"].set_visible(False)
    for number, (bar, name) in enumerate(zip(bars.values(), names, strict=True)):
        y = sum(steps[:number]) + steps[number] / 2
        ax.barh(y, bar.middle, THICK, color=OTHERS if number or counted else FIRST)
        ax.plot((bar.low, bar.high), (y, y), color=INK, linewidth=1.2, solid_capstyle="butt")
        (zero, middle), (end, _) = place(ax, 0, y), place(ax, bar.high, y)
        write_lines(ax.figure, zero - 0.1, middle, name, ha="right")
        write(ax.figure, end + 0.1, middle, numbers[number])
        write(ax.figure, WIDTH - EDGE, middle, ratios[number], ha="right", weight="bold")
    return ax.figure
