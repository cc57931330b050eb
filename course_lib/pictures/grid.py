"""Arrange canvases beside and below each other, with a title above. No other file counts pixels."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from .canvas import Canvas
from .drawing_width import drawing_width, is_narrow
from .style import BOLD, HEADING, HIGHLIGHT, LINE, NOTE, QUIET, SMALL_NOTE, STYLE, TEXT, TITLE, TextStyle

ARROW_HEAD = 8  # length of the head, which is as high as it is long
ABOVE_ARROW, BELOW_ARROW = 8, 18  # distance from the arrow to the baselines of its texts


def label(text: str, style: TextStyle = TEXT) -> Canvas:
    """Return one line of text, cut at the width of a picture; on a phone, as many lines as it needs."""
    if is_narrow() and style.width(text) > drawing_width():
        return column([label(line, style) for line in _fold(text, style)], STYLE.tight)
    canvas = Canvas()
    canvas.text(0, style.size, style.clip(text, drawing_width()), style)
    return canvas


def _fold(text: str, style: TextStyle) -> list[str]:
    """Break a text between words into lines that fit; a word that is too wide is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if style.width(longer) <= drawing_width() or not lines[-1]:
            lines[-1] = style.clip(longer, drawing_width())
        else:
            lines.append(style.clip(word, drawing_width()))
    return lines


def sign(text: str) -> Canvas:
    """Return a sign between tables, such as "=", centred on the cells beside it."""
    canvas, style = Canvas(), TITLE.but(color=QUIET)
    canvas.text(0, style.size, text, style)
    canvas.middle, canvas.floats = 2 * style.size / 3, True
    return canvas


def arrow(above: str = "", below: str = "", length: float = STYLE.arrow) -> Canvas:
    """Return an arrow to the right, with the operation above it and its effect on the elements below.

    On a phone it points down, on a line of its own.
    """
    if is_narrow():
        canvas = label(" ".join(["↓", ": ".join(filter(None, [above, below]))]), HEADING)
        canvas.floats = canvas.alone = True
        return canvas
    canvas = Canvas()
    length = max(length, BOLD.width(above), SMALL_NOTE.width(below))
    y = BOLD.size + ABOVE_ARROW
    canvas.lines([(0, y, length - ARROW_HEAD, y)])
    canvas.triangle(length, y, ARROW_HEAD, LINE)
    canvas.text(length / 2, y - ABOVE_ARROW, above, BOLD, anchor="middle")
    canvas.text(length / 2, y + BELOW_ARROW, below, SMALL_NOTE, anchor="middle")
    canvas.middle, canvas.floats = y, True
    return canvas


def row(parts: Iterable[Canvas | str], gap: float = STYLE.gap) -> Canvas:
    """Place parts side by side with the tops of their cells aligned, and signs and arrows centred on the first cells.

    A string becomes a sign. On a phone, what doesn't fit goes below.
    """
    canvases = [sign(part) if isinstance(part, str) else part for part in parts]
    if is_narrow() and len(lines := list(_lines(canvases, gap))) > 1:
        return column([_row(line, gap) for line in lines], STYLE.gap)
    return _row(canvases, gap)


def _lines(canvases: Iterable[Canvas], gap: float) -> Iterator[list[Canvas]]:
    """Divide the parts of a row into lines that fit: an arrow on a line of its own, a sign before what follows it."""
    line: list[Canvas] = []
    for canvas in canvases:
        if line and (canvas.alone or line[-1].alone or _row([*line, canvas], gap).width > drawing_width()):
            signs = [line.pop()] if line[-1].floats and not line[-1].alone else []
            yield from [line] if line else []
            if signs and _row([*signs, canvas], gap).width > drawing_width():
                yield signs
                signs = []
            line = signs
        line.append(canvas)
    yield line


def _row(canvases: Sequence[Canvas], gap: float) -> Canvas:
    fixed = [canvas for canvas in canvases if not canvas.floats]
    lead = fixed[0] if fixed else canvases[0]
    rise = max(max(canvas.top for canvas in canvases), *(_rise(canvas, lead) for canvas in canvases))
    whole = Canvas()
    for canvas in canvases:
        if canvas.width or canvas.height:
            x = ceil(whole.width + gap) if whole.width else 0
            whole.place(canvas, x, rise - _rise(canvas, lead))
    whole.top, whole.middle = rise, rise - lead.top + lead.middle
    return whole


def _rise(canvas: Canvas, lead: Canvas) -> float:
    """Return the distance from the top of a canvas down to the line on which the tops of all cells lie."""
    return canvas.middle - (lead.middle - lead.top) if canvas.floats else canvas.top


def column(parts: Iterable[Canvas], gap: float = STYLE.panels) -> Canvas:
    """Place parts below each other, left-aligned; in a row, the first part with cells is the aligned part."""
    whole = Canvas()
    for part in parts:
        if part.width or part.height:
            y = ceil(whole.height + gap) if whole.height else 0
            whole.place(part, 0, y)
            if part.middle and not whole.middle:
                whole.top, whole.middle = y + part.top, y + part.middle
    return whole


def wrap(
    parts: Iterable[Canvas | Sequence[Canvas | str]], gap: float = STYLE.gap, between_lines: float = STYLE.gap
) -> Canvas:
    """Place parts side by side and wrap at the width of a picture; parts in a sequence stay together."""
    lines: list[list[Canvas | str]] = []
    used = 0.0
    for part in parts:
        unit = [part] if isinstance(part, Canvas) else part
        width = row(unit, gap).width
        used += gap + width
        if not lines or used > drawing_width():
            lines.append([])
            used = width
        lines[-1] += unit
    return column([row(line, gap) for line in lines], between_lines)


def flow(texts: Sequence[tuple[str, TextStyle]]) -> Canvas:
    """Place texts side by side and wrap at the width of a picture."""
    return wrap([label(text, style) for text, style in texts if text], STYLE.gap, STYLE.between)


def quote(part: Canvas) -> Canvas:
    """Place a part beside a vertical line."""
    canvas = Canvas()
    canvas.lines([(0, 0, 0, part.height)], color=HIGHLIGHT)
    canvas.place(part, STYLE.near, 0)
    return canvas


def card(title: str, notes: Iterable[str], *parts: Canvas, gap: float = STYLE.panels) -> Canvas:
    """Put together a whole picture: its title, notes on how to read it, and its parts below them."""
    head = column([label(title, TITLE), *(label(note, NOTE) for note in notes)], STYLE.tight)
    return column([head, column(parts, gap)], STYLE.gap)
