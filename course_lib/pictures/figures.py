"""Drawing with matplotlib: one style, one card, coordinates in inches, and the same bytes on every run."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterable
from math import ceil
from typing import TYPE_CHECKING, Any

from .canvas import on_card
from .style import INK, STYLE
from .text import text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.8  # inches; with its card as wide as a notebook shows without shrinking it
SMALL, USUAL, LARGE = 8.5, 10, 12  # font sizes in points
LINE_HEIGHT = 1.45  # height of a line of text, as a multiple of its font size
INCH = 72  # in points


def figure_svg(put: Callable[[Figure], None], texts: Iterable[str]) -> str:
    """Draw with matplotlib on the white card that hand-drawn pictures have, and without a date.

    put draws on an empty figure, in inches from its upper left corner, which grows so that nothing is cut off. texts
    are those of the caller, in any script.
    """
    from matplotlib.figure import Figure

    from .fonts import figure_style

    buffer = io.StringIO()
    with figure_style("".join(texts)):
        figure = Figure(figsize=(1, 1))  # one inch, so that fractions of the figure are inches
        figure.patch.set_visible(False)
        put(figure)
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=0, metadata=no_metadata)
    svg = buffer.getvalue()
    drawing = svg[svg.index("<svg") :].rstrip()  # without the XML prologue, which contains a URL
    ((width, height),) = re.findall(r'viewBox="0 0 (\S+) (\S+)"', drawing)
    width, height = (ceil(float(points) * 96 / INCH) for points in (width, height))
    at = f'<svg x="{STYLE.margin}" y="{STYLE.margin}" overflow="visible" '  # a reader's font may be wider than ours
    return on_card(width, height, drawing.replace("<svg ", at, 1))


def inch_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes at a position in inches."""
    return figure.add_axes((left, 1 - top - height, width, height))


def write(figure: Figure, x: float, y: float, text: str, **look: Any) -> float:
    """Put a text of one or more lines with its upper left corner at (x, y) inches; return its lower edge."""
    usual = {"color": INK, "size": USUAL, "va": "top", "linespacing": LINE_HEIGHT}
    figure.text(x, 1 - y, text, **usual | look)
    return y + text_height(text, look.get("size", USUAL))


def write_title(figure: Figure, title: str, width: float) -> float:
    """Put a title at the top left, wrapped to a width in inches; return its lower edge."""
    return write(figure, 0, 0, in_lines(title, width, LARGE, bold=True), size=LARGE, weight="bold")


def inches(text: str, size: float = USUAL, *, bold: bool = False) -> float:
    """Return the width of a text's longest line."""
    return max(text_width(line, size, bold=bold) for line in text.split("\n")) / INCH


def text_height(text: str, size: float = USUAL) -> float:
    """Return the height of a text in inches; 0 if it is empty."""
    return len(text.splitlines()) * size * LINE_HEIGHT / INCH


def in_lines(text: str, width: float, size: float = USUAL, *, bold: bool = False) -> str:
    """Break lines that are wider than a number of inches, between words."""
    lines = []
    for line in text.split("\n"):
        characters = int(width * len(line) / (inches(line, size, bold=bold) or 1.0))
        lines += textwrap.wrap(line, max(1, characters), break_long_words=False)
    return "\n".join(lines)
