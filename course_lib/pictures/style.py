"""The style of every hand-drawn picture: its colours, its texts, and its sizes in pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .text import is_within_letter, text_width

INK = "#1F2328"  # text
QUIET = "#57606A"  # explanations: shapes, strides, notes; contrast of 6 to 1 on white
LINE = "#8C959F"  # arrows
FAINT = "#E5E7EB"  # the card's edge, slots that nothing reads
WHITE = "#FFF"
LINK = "#0B4F96"  # between the dark end of the heatmaps' map and the blue of head 1
HIGHLIGHT = "#A40E26"  # the outlined element and anything wrong; never without a text or a shape beside the colour
PLAIN = "#EEF1F4"  # a cell that belongs to no head
# One colour per head, light to dark and back, so that adjacent ones differ in grey and for colour-blind readers too.
# Black text is readable on each. Every block of a head carries the head's number, so that colour is never alone.
HEADS = ("#FAD680", "#6DB7E4", "#F6E1EC", "#55AD94", "#DCD6F2", "#DE8A5A", "#EDF3C8", "#968CD2")
# The one scale of attention weights, from 0 to 1. No head has one of its colours, and INK is readable on each.
SHADES = ("#F5F8FB", "#E9F0F6", "#DAE5EF", "#C3D5E5", "#AAC3DA", "#8FB0CE")
HIDDEN = "#D0D4DA"  # a cell that a mask hides
PALETTE = {  # name -> colour, for pages that show these pictures
    "ink": INK,
    "quiet": QUIET,
    "line": LINE,
    "faint": FAINT,
    "paper": WHITE,
    "plain": PLAIN,
    "wrong": HIGHLIGHT,
    "link": LINK,
    **{f"head-{number}": color for number, color in enumerate(HEADS)},
    **{f"shade-{number}": color for number, color in enumerate(SHADES)},
}
DARKER = 0.55
RISE = 0.72  # height of a capital letter, as a multiple of the font size
SANS = "system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"
MONO = "ui-monospace,Menlo,Consolas,monospace"


def head_color(head: int) -> str:
    """Return the colour of a head; colours repeat after eight, so pictures always write the number as well."""
    return HEADS[head % len(HEADS)]


def weight_color(weight: float) -> str:
    """Return the colour of an attention weight, between two of SHADES, as scripts find it too."""
    at = min(max(weight, 0.0), 1.0) * (len(SHADES) - 1)
    below = min(int(at), len(SHADES) - 2)
    ends = ([int(shade[i : i + 2], 16) for i in (1, 3, 5)] for shade in SHADES[below : below + 2])
    return "#" + "".join(f"{round(a + (b - a) * (at - below)):02X}" for a, b in zip(*ends, strict=True))


def darken(color: str) -> str:
    """Darken a head's colour enough for a thin line on white."""
    return "#" + "".join(f"{int(int(color[i : i + 2], 16) * DARKER):02X}" for i in (1, 3, 5))


@dataclass(frozen=True)
class TextStyle:
    """Size, weight, font and colour of a text."""

    size: int = 12  # pixels, one of `canvas.SIZES`
    bold: bool = False
    mono: bool = False
    color: str = INK  # or QUIET, or HIGHLIGHT

    def width(self, text: str) -> float:
        """Return the most pixels that a text needs."""
        return text_width(text, self.size, bold=self.bold, mono=self.mono)

    def clip(self, text: str, width: float) -> str:
        """Return the text, or its beginning and an ellipsis if it is wider; "" if not even the ellipsis fits."""
        if self.width(text) <= width:
            return text
        end = len(text)
        while end and (self.width(text[:end] + "…") > width or is_within_letter(text, end)):
            end -= 1
        return text[:end].rstrip() + "…" if end else ""

    def base(self, height: float) -> int:
        """Return the distance from the top of a line to the baseline of a text in its middle."""
        return round((height + RISE * self.size) / 2)

    def but(self, *, color: str) -> TextStyle:
        """Return the same style in a different colour."""
        return replace(self, color=color)


TITLE, HEADING, NAME = TextStyle(16, bold=True), TextStyle(14, bold=True), TextStyle(13, bold=True)
TEXT, SMALL, TINY = TextStyle(), TextStyle(11), TextStyle(9)
BOLD, SMALL_BOLD, CODE = TextStyle(bold=True), TextStyle(11, bold=True), TextStyle(11, bold=True, mono=True)
MONO_NAME, MONO_NOTE = TextStyle(13, bold=True, mono=True), TextStyle(11, mono=True, color=QUIET)
LISTING, SPOKEN = TextStyle(13, mono=True), TextStyle(13)
NOTE, SMALL_NOTE = TEXT.but(color=QUIET), SMALL.but(color=QUIET)
ALERT, SMALL_ALERT = TEXT.but(color=HIGHLIGHT), SMALL.but(color=HIGHLIGHT)


@dataclass(frozen=True)
class PanelStyle:
    """Sizes in pixels."""

    cell: int = 24  # side of a cell
    number_cell: int = 34  # width of a cell that holds two decimals
    strip_cell: tuple[int, int] = (9, 12)  # width and height of a cell that stands for a number among many
    flat_cell: int = 16  # height of a cell that holds nothing
    word_cell: tuple[int, int] = (44, 30)  # width and height of a cell that holds a short word
    box: int = 46  # width of a box that stands for a head
    rows: int = 76  # width of a block that stands for the rows of a head
    between: int = 2  # between two cells
    tight: int = 4  # between a text and what it names
    near: int = 8  # between two lines of one panel
    gap: int = 14  # between two tables that belong together
    panels: int = 24  # between two panels
    margin: int = 20  # between a drawing and the edge of its card
    arrow: int = 90  # the least length of an arrow
    drop: int = 30  # from a row of boxes to the next, where lines join them
    label: int = 120  # the most width of a row's label
    column_name: int = 110  # the most width of a column's name
    legend: int = 190  # the most width of the code below a narrow panel
    line: int = 15  # height of the indices above slots
    thread: float = 1.4  # width of a line from a slot to a cell
    thick: float = 2.5  # likewise for the highlighted element
    straight: int = 26  # from slots to cells, if lines go straight down
    crossing: int = 84  # the same if they cross
    skipped: int = 16  # width of a gap where slots are left out
    memory_row: int = 792  # width of a row of slots
    memory_label: int = 54  # width of its label
    narrow: int = 286  # width of a picture on a phone, without its margins
    width: int = 860  # width of a picture, as wide as a notebook shows without shrinking it

    @property
    def pitch(self) -> int:
        """The distance from one cell to the next."""
        return self.cell + self.between


STYLE = PanelStyle()
