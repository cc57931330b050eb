"""A small canvas: cells, text, lines and arrows in, one compact SVG out, the same to the byte at each run."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from .text_size import text_width

INK = "#1F2328"  # text and the outline of what is followed to the letter
QUIET = "#57606A"  # what explains: shapes, strides, notes; 6 to 1 on white
LINE = "#8C959F"  # arrows and fences
FAINT = "#E5E7EB"  # the card's edge, slots that nobody reads
FOLLOW = "#A40E26"  # the outlined number, and whatever is wrong: always with a word or a shape beside the colour
# One colour a head, light to dark and back, so that neighbours differ in grey and for the colour-blind too. Black
# text reads on each. The colour is never alone: every block of a head carries the head's number.
HEADS = ("#FAD680", "#6DB7E4", "#F6E1EC", "#55AD94", "#DCD6F2", "#DE8A5A", "#EDF3C8", "#968CD2")
PLAIN = "#EEF1F4"  # a cell that belongs to no head

CELL = 24  # pixels, a cell's side
STEP = CELL + 2  # from a cell to its neighbour
MARGIN = 20
SANS = "system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"
MONO = "ui-monospace,Menlo,Consolas,monospace"
SIZES = (9, 11, 13, 14, 16)  # of text, beside the usual 12
# One letter a look, because a picture has a hundred texts: quiet, followed, bold, middle, end, typewriter.
STYLE = (
    f"svg{{font:12px {SANS};fill:{INK}}}.q{{fill:{QUIET}}}.f{{fill:{FOLLOW}}}.b{{font-weight:600}}"
    f".m{{text-anchor:middle}}.e{{text-anchor:end}}.t{{font-family:{MONO}}}"
    + "".join(f".s{size}{{font-size:{size}px}}" for size in SIZES)
)


def head_color(head: int) -> str:
    """The colour of a head; after eight they begin again, which is why the number is always there as well."""
    return HEADS[head % len(HEADS)]


class Drawing:
    """Shapes at places in pixels, y downwards; it grows with what is put on it.

    Attributes:
        width, height: pixels, up to the outermost shape.
        text_boxes: (left, top, right, bottom, text) of each text, so that a test can look for overlaps.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.width = self.height = 0.0
        self.text_boxes: list[tuple[float, float, float, float, str]] = []

    def cells(
        self, corners: Iterable[tuple[float, float]], fill: str, *, width: float = CELL, height: float = CELL
    ) -> None:
        """Put equal boxes, given by their upper left corners: neighbours in a row are one dashed line, in few bytes."""
        step = width + STEP - CELL
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
        self,
        x: float,
        y: float,
        width: float = CELL,
        height: float = CELL,
        *,
        color: str = FOLLOW,
        dashed: bool = False,
    ) -> None:
        """Put the outline of a box around what is to be looked at."""
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(
            f'<rect x="{_short(x)}" y="{_short(y)}" width="{_short(width)}" height="{_short(height)}" rx="2" '
            f'fill="none" stroke="{color}" stroke-width="2"{dashes}/>'
        )
        self._grow(x + width, y + height)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        bold: bool = False,
        color: str = INK,
        anchor: str = "start",
        mono: bool = False,
    ) -> None:
        """Put one line of text on the base line y; anchor is "start", "middle" or "end" and says what x is.

        The size is one of SIZES or 12, the colour INK, QUIET or FOLLOW.
        """
        if not text:
            return
        looks = {
            f"s{_short(size)}": size != 12,
            "b": bold,
            "q": color == QUIET,
            "f": color == FOLLOW,
            anchor[0]: anchor != "start",
            "t": mono,
        }
        names = " ".join(name for name, has in looks.items() if has)
        look = f' class="{names}"' if names else ""
        self._parts.append(f'<text x="{_short(x)}" y="{_short(y)}"{look}>{escape(text, quote=False)}</text>')
        width = text_width(text, size, bold=bold, mono=mono)
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
        self.text_boxes.append((left, y - 0.8 * size, left + width, y + 0.2 * size, text))
        self._grow(left + width, y + 0.3 * size)

    def numbers(self, places: Iterable[tuple[float, float, str]], *, size: float = 11, color: str = INK) -> None:
        """Put short texts, each in the middle of a cell given by its upper left corner."""
        places = list(places)
        for x, y, text in places:
            left = x + CELL / 2 - text_width(text, size) / 2
            self.text_boxes.append((left, y + 5, left + text_width(text, size), y + 18, text))
        rows: dict[float, str] = {}
        for x, y, text in places:
            if text:
                rows[y] = rows.get(y, "") + f'<tspan x="{_short(x + CELL / 2)}">{escape(text, quote=False)}</tspan>'
        texts = "".join(f'<text y="{_short(y + 16)}">{row}</text>' for y, row in rows.items())
        if texts:
            look = {INK: "", QUIET: " q", FOLLOW: " f"}[color]
            self._parts.append(f'<g class="s{_short(size)} m{look}">{texts}</g>')
            self._grow(max(x for x, _, _ in places) + CELL, max(y for _, y, _ in places) + CELL)

    def lines(
        self,
        ends: Iterable[tuple[float, float, float, float]],
        *,
        color: str = LINE,
        width: float = 1.5,
        dashed: bool = False,
    ) -> None:
        """Put straight lines (x, y, x, y) of one look."""
        ends = list(ends)
        if ends:
            path = "".join(f"M{_short(a)} {_short(b)}{_line_to(a, b, c, d)}" for a, b, c, d in ends)
            dashes = ' stroke-dasharray="4 3"' if dashed else ""
            self._parts.append(
                f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{_short(width)}"{dashes}/>'
            )
            self._grow(max(max(a, c) for a, _, c, _ in ends), max(max(b, d) for _, b, _, d in ends))

    def arrow(self, x: float, y: float, length: float, above: str = "", below: str = "") -> None:
        """Put an arrow to the right with a word above (what is done) and one below (what happens to the numbers)."""
        self.lines([(x, y, x + length - 6, y)])
        tip = _short(x + length)
        self._parts.append(
            f'<path d="M{tip} {_short(y)}L{_short(x + length - 8)} {_short(y - 4)}V{_short(y + 4)}z" fill="{LINE}"/>'
        )
        self.text(x + length / 2, y - 8, above, bold=True, anchor="middle")
        self.text(x + length / 2, y + 18, below, size=11, color=QUIET, anchor="middle")
        self._grow(x + length, y)

    def place(self, other: Drawing, x: float, y: float) -> None:
        """Put another drawing with its upper left corner at a place."""
        inner = "".join(other._parts)
        at = f"{_short(x)} {_short(y)}"
        self._parts.append(inner if at == "0 0" else f'<g transform="translate({at})">{inner}</g>')
        self.text_boxes += [(a + x, b + y, c + x, d + y, text) for a, b, c, d, text in other.text_boxes]
        self._grow(x + other.width, y + other.height)

    def svg(self) -> str:
        """The drawing on a white card, which reads on a dark page too."""
        width, height = round(self.width + 2 * MARGIN), round(self.height + 2 * MARGIN)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
            f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10" fill="#FFF" stroke="{FAINT}"/>'
            f'<style>{STYLE}</style><g transform="translate({MARGIN} {MARGIN})">{"".join(self._parts)}</g></svg>'
        )

    def _grow(self, right: float, bottom: float) -> None:
        self.width, self.height = max(self.width, right), max(self.height, bottom)


def stack(drawings: Iterable[Drawing], gap: float = 24) -> Drawing:
    """Put drawings below each other, left edges in line."""
    stacked = Drawing()
    for drawing in drawings:
        stacked.place(drawing, 0, round(stacked.height + gap) if stacked.height else 0)
    return stacked


def _short(number: float) -> str:
    """A coordinate with at most one decimal, without a needless zero: 12, 12.5."""
    return f"{round(number, 1):g}"


def _line_to(x: float, y: float, to_x: float, to_y: float) -> str:
    """A path's step to a place, in its short form where it goes straight across or down."""
    if y == to_y:
        return f"H{_short(to_x)}"
    return f"V{_short(to_y)}" if x == to_x else f"L{_short(to_x)} {_short(to_y)}"
