"""A small canvas that turns cells, text, lines and arrows into one compact SVG, the same to the byte on every run."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from .style import FAINT, HIGHLIGHT, INK, LINE, MONO, QUIET, SANS, SMALL, STYLE, TEXT, WHITE, TextStyle

SIZES = (9, 11, 13, 14, 16)  # font sizes other than the usual 12
# One letter per style keeps the SVG short: quiet, highlighted, bold, middle, end, monospace.
CSS = (
    f"svg{{font:12px {SANS};fill:{INK}}}.q{{fill:{QUIET}}}.f{{fill:{HIGHLIGHT}}}.b{{font-weight:600}}"
    f".m{{text-anchor:middle}}.e{{text-anchor:end}}.t{{font-family:{MONO}}}"
    + "".join(f".s{size}{{font-size:{size}px}}" for size in SIZES)
)
DASHED = ' stroke-dasharray="4 3"'
Point = tuple[float, float]
Line = tuple[float, float, float, float]
CellText = tuple[float, float, str]  # x and y of the cell's corner, and its text


class Canvas:
    """Shapes at pixel coordinates, with y downwards; the canvas grows with what is put on it.

    Attributes:
        width, height: size in pixels, up to the outermost shape.
        top, middle: y of the top and of the middle of its cells, used for alignment in a row; 0 if it has no cells.
        floats: whether it is a sign or an arrow, which is centred on the cells beside it.
        alone: whether it stands on a line of its own in a drawing for a phone.
        text_boxes: (left, top, right, bottom, text) of each text, so that a test can look for overlaps.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.width = self.height = self.top = self.middle = 0.0
        self.floats = self.alone = False
        self.text_boxes: list[tuple[float, float, float, float, str]] = []

    def cells(
        self, corners: Iterable[Point], fill: str, *, width: float = STYLE.cell, height: float = STYLE.cell
    ) -> None:
        """Put equal boxes, given by their upper left corners; adjacent ones become one dashed line to save bytes."""
        step = width + STYLE.between
        runs: list[list[float]] = []  # x, y, number of boxes
        for y, x in sorted((y, x) for x, y in corners):
            if runs and runs[-1][1] == y and abs(runs[-1][0] + runs[-1][2] * step - x) < 0.01:
                runs[-1][2] += 1
            else:
                runs.append([x, y, 1])
        if runs:
            path = "".join(f"M{_short(x)} {_short(y + height / 2)}h{_short(n * step - 2)}" for x, y, n in runs)
            dashes = f'stroke-width="{_short(height)}" stroke-dasharray="{_short(width)} 2"'
            self._parts.append(f'<path d="{path}" stroke="{fill}" {dashes}/>')
            self._grow(max(x + n * step - 2 for x, _, n in runs), max(y for _, y, _ in runs) + height)

    def outline(
        self, x: float, y: float, width: float, height: float = STYLE.cell, *, color: str = HIGHLIGHT, dashes: str = ""
    ) -> None:
        """Put the outline of a box; dashes is "" or DASHED."""
        size = f'width="{_short(width)}" height="{_short(height)}" rx="2"'
        look = f'fill="none" stroke="{color}" stroke-width="2"{dashes}'
        self._parts.append(f'<rect x="{_short(x)}" y="{_short(y)}" {size} {look}/>')
        self._grow(x + width, y + height)

    def text(self, x: float, y: float, text: str, style: TextStyle = TEXT, *, anchor: str = "start") -> None:
        """Put one line of text with baseline y; anchor "start", "middle" or "end" says which point of the text x is."""
        if not text:
            return
        look = _class(style, anchor)
        self._parts.append(f'<text x="{_short(x)}" y="{_short(y)}"{look}>{escape(text, quote=False)}</text>')
        width = style.width(text)
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
        self._grow(left + width, y + 0.3 * style.size)
        self.text_boxes.append((left, y - 0.8 * style.size, left + width, y + 0.2 * style.size, text))

    def cell_texts(
        self, texts: Iterable[CellText], style: TextStyle = SMALL, *, width: float, height: float = STYLE.cell
    ) -> None:
        """Put short texts, each centred in the cell with the given upper left corner."""
        rows: dict[float, str] = {}
        base = style.base(height)
        for x, y, text in texts:
            if text:
                middle = x + width / 2
                rows[y] = rows.get(y, "") + f'<tspan x="{_short(middle)}">{escape(text, quote=False)}</tspan>'
                left = middle - style.width(text) / 2
                self.text_boxes.append((left, y + base - style.size, left + style.width(text), y + base + 2, text))
                self._grow(max(x + width, left + style.width(text)), y + height)
        if rows:
            lines = "".join(f'<text y="{_short(y + base)}">{row}</text>' for y, row in rows.items())
            self._parts.append(f"<g{_class(style, 'middle')}>{lines}</g>")

    def lines(self, ends: Iterable[Line], *, color: str = LINE, width: float = 1.5, dashes: str = "") -> None:
        """Put straight lines (x, y, x, y) in the same style; dashes is "" or DASHED."""
        ends = list(ends)
        if ends:
            path = "".join(f"M{_short(a)} {_short(b)}{_line_to(a, b, c, d)}" for a, b, c, d in ends)
            look = f'fill="none" stroke="{color}" stroke-width="{_short(width)}"{dashes}'
            self._parts.append(f'<path d="{path}" {look}/>')
            self._grow(max(max(a, c) for a, _, c, _ in ends), max(max(b, d) for _, b, _, d in ends))

    def triangle(self, x: float, y: float, length: float, fill: str) -> None:
        """Put an arrowhead that points to the right, with its tip at (x, y)."""
        half = length / 2
        left, above, below = _short(x - length), _short(y - half), _short(y + half)
        self._parts.append(f'<path d="M{_short(x)} {_short(y)}L{left} {above}V{below}z" fill="{fill}"/>')
        self._grow(x, y + half)

    def place(self, other: Canvas, x: float, y: float) -> None:
        """Put another drawing with its upper left corner at (x, y)."""
        inner = "".join(other._parts)
        at = f"{_short(x)} {_short(y)}"
        self._parts.append(inner if at == "0 0" else f'<g transform="translate({at})">{inner}</g>')
        self.text_boxes += [(a + x, b + y, c + x, d + y, text) for a, b, c, d, text in other.text_boxes]
        self._grow(x + other.width, y + other.height)

    def svg(self) -> str:
        """Return the drawing on a white card, which is readable on a dark page too."""
        at = f"translate({STYLE.margin} {STYLE.margin})"
        drawing = f'<style>{CSS}</style><g transform="{at}">{"".join(self._parts)}</g>'
        return on_card(round(self.width), round(self.height), drawing)

    def _grow(self, right: float, bottom: float) -> None:
        self.width, self.height = max(self.width, right), max(self.height, bottom)


def on_card(width: int, height: int, drawing: str) -> str:
    """Put a drawing of the given size on a white card, with STYLE.margin pixels on each side."""
    width, height = width + 2 * STYLE.margin, height + 2 * STYLE.margin
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10" fill="{WHITE}" stroke="{FAINT}"/>'
        f"{drawing}</svg>"
    )


def _class(style: TextStyle, anchor: str) -> str:
    """Return the class attribute of a text, or "" for the usual style."""
    looks = {
        f"s{style.size}": style.size != TEXT.size,
        "b": style.bold,
        "q": style.color == QUIET,
        "f": style.color == HIGHLIGHT,
        anchor[0]: anchor != "start",
        "t": style.mono,
    }
    names = " ".join(name for name, has in looks.items() if has)
    return f' class="{names}"' if names else ""


def _short(number: float) -> str:
    """Write a coordinate with at most one decimal and without trailing zeros: 12, 12.5."""
    return f"{round(number, 1):g}"


def _line_to(x: float, y: float, to_x: float, to_y: float) -> str:
    """Return a path segment to a point, in the short form for horizontal and vertical lines."""
    if y == to_y:
        return f"H{_short(to_x)}"
    return f"V{_short(to_y)}" if x == to_x else f"L{_short(to_x)} {_short(to_y)}"
