"""Draw a roofline with matplotlib: the roof, the balance, the two regions and the points."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from course_lib.pictures.figures import SMALL, WIDTH, in_lines, inch_axes, text_height, write, write_title
from course_lib.pictures.style import HIGHLIGHT, INK, QUIET, SHADES

from .chart_drawing import COLORS, GAP, LONGEST, MARKERS, PLOT, TICKS, draw_ticks
from .measurements import Point, three_digits

SIDE = 30  # each region spans at least this factor, so that its name fits
XLABEL, YLABEL = "arithmetic intensity: operations per byte", "billion operations per second (GFLOP/s)"


def draw_roofline(
    points: Mapping[str, Point], rate: float, balance: float, title: str, note: str, figure: Figure
) -> None:
    """Draw the roof over all points, with the memory-bound side shaded."""
    top = write(figure, 0, write_title(figure, title, WIDTH) + GAP / 2, YLABEL) + GAP
    ax = inch_axes(figure, 0.5, top, *PLOT)
    intensities = [point.intensity for point in points.values()]
    left = min(min(intensities) / 3, balance / SIDE)
    right = max(max(intensities) * 3, balance * SIDE)
    low = min([*(point.reached for point in points.values()), left / balance * rate]) / 2
    ax.axvspan(left, balance, color=SHADES[1], zorder=0)
    ax.loglog((left, balance, right), (left / balance * rate, rate, rate), color=HIGHLIGHT, linewidth=1.8)
    for (name, point), color, marker in zip(points.items(), COLORS, MARKERS, strict=False):
        label = in_lines(f"{name}: {three_digits(point.intensity)} operations/byte", LONGEST)
        ax.loglog(point.intensity, point.reached, marker, color=color, label=label, linestyle="none")
    ax.set(xlim=(left, right), ylim=(low, rate * 5))
    for x, side, text in ((balance / 1.15, "right", "memory-bound"), (balance * 1.15, "left", "compute-bound")):
        ax.text(x, rate * 3.2, text, ha=side, va="center", color=INK, weight="bold")
    ax.text(balance / 1.15, rate * 1.6, f"balance {three_digits(balance)}", ha="right", va="center", color=HIGHLIGHT)
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, borderaxespad=0)
    draw_ticks(ax)
    ax.set_xlabel(XLABEL, color=INK)
    bottom = top + PLOT[1] + TICKS + text_height(XLABEL) + GAP
    write(figure, 0, bottom, in_lines(note, WIDTH, SMALL), size=SMALL, color=QUIET)
