"""What all plots share: title and note around the axes, sizes of text, numbers as they are written."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .drawing import INK, LINE, QUIET
from .pattern_drawing import WIDTH
from .text_size import letters, text_width

SMALL, USUAL, LARGE = 8.5, 9.5, 11.5  # points
ROW = 0.2  # inches, a line of text
EDGE = 0.12  # inches of white around everything
LONGEST = 32  # letters of a name in one line


def frame(title: str, note: str, *, left: float, right: float, above: float, height: float, below: float) -> Axes:
    """Make a figure with a title above and a note below, and axes between them.

    Args:
        title, note: texts; what is too long goes on in the next line.
        left, right, above, below: inches that the axes' own texts need on each side.
        height: inches of the axes.

    Returns:
        Axes without frame and ticks; coordinates in inches are `ax.figure.dpi_scale_trans`.
    """
    titles, notes = in_lines(title, 74), in_lines(note, 112)
    bottom = EDGE + ROW * len(notes) + below
    whole = bottom + height + above + ROW * len(titles) + EDGE
    figure = Figure(figsize=(WIDTH, whole), facecolor="white")
    write_lines(figure, EDGE, whole - EDGE - ROW * len(titles) / 2, titles, size=LARGE, weight="bold")
    write_lines(figure, EDGE, EDGE + ROW * len(notes) / 2, notes, size=SMALL, color=QUIET)
    ax = figure.add_axes((left / WIDTH, bottom / whole, (WIDTH - left - right) / WIDTH, height / whole))
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(LINE)
    ax.tick_params(length=0, labelsize=SMALL, labelcolor=INK)
    return ax


def in_lines(text: str, most: int) -> list[str]:
    """Break a text into lines of so many usual letters at most, or of fewer that are wider."""
    return textwrap.wrap(text, max(1, int(most * len(text) / (letters(text) or 1)))) if text else []


def write(figure: Figure, x: float, y: float, text: str, **look: object) -> None:
    """Put one line of text with its middle at the height y, in inches from the lower left corner."""
    usual = {"color": INK, "size": USUAL, "va": "center_baseline", "transform": figure.dpi_scale_trans}
    figure.text(x, y, text, **usual | look)


def write_lines(figure: Figure, x: float, middle: float, lines: Sequence[str], **look: object) -> None:
    """Put lines of text below each other, with the middle of them all at a height."""
    for number, line in enumerate(lines):
        write(figure, x, middle + ROW * ((len(lines) - 1) / 2 - number), line, **look)


def place(ax: Axes, x: float, y: float) -> tuple[float, float]:
    """Where a point of the data lies on the figure, in inches."""
    across, up = ax.transData.transform((x, y)) / ax.figure.dpi
    return float(across), float(up)


def wide(text: str, size: float = USUAL) -> float:
    """Inches that a text needs at most."""
    return text_width(text, size) / 72


def plain(number: float) -> str:
    """Three digits, as a person writes them: 0.0123, 1.20, 65.2, 12,300."""
    if number >= 99.95:
        return f"{float(f'{number:.3g}'):,.0f}"
    return f"{number:#.3g}"


def counted(number: float, unit: str) -> str:
    """A number of things: 1 student, 1,200 students."""
    return f"{number:,.0f} {unit.removesuffix('s') if number == 1 else unit}"


def tick(number: float) -> str:
    """A round number on an axis: 0.1, 2, 10,000."""
    return f"{number:,.0f}" if number >= 1 else f"{number:g}"


def size(number: float) -> str:
    """A length or width: 512, 1k for 1024, 32k, and 0.500 for what is no whole number."""
    if number != round(number):
        return plain(number)
    return f"{number / 1024:g}k" if number % 1024 == 0 else f"{number:,.0f}"


def ratio(factor: float) -> str:
    """How much more or less than another number: × 1.30, ÷ 65.2."""
    return f"× {plain(factor)}" if factor >= 1 else f"÷ {plain(1 / factor)}"
