"""Draw code and its output."""

from collections.abc import Sequence

from .grid import card, column, label, quote
from .picture import Picture
from .style import HIGHLIGHT, LISTING, NAME, SPOKEN, STYLE


def draw_listing(code: Sequence[str], output: Sequence[str], *, title: str, caption: str) -> Picture:
    """Draw lines of code and the lines that they print, of which the first is highlighted.

    Raises:
        ValueError: If there is no line of output.
    """
    if not output:
        raise ValueError("output is empty: give the lines that the code prints.")
    above = [label(line.replace(" ", "\N{NO-BREAK SPACE}") or " ", LISTING) for line in code]
    below = [label(output[0], NAME.but(color=HIGHLIGHT)), *(label(line, SPOKEN) for line in output[1:])]
    drawing = card(title, [], column(above, STYLE.tight), quote(column(below, STYLE.tight)), gap=STYLE.gap)
    description = "\n".join([f"{title}:", *code, "", "It prints:", *output])
    return Picture(svg=drawing.svg(), description=description, caption=caption)
