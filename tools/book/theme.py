"""The book's look for pages outside Sphinx, such as recordings: its heading font and its colours in both themes."""

import base64
from pathlib import Path

from course_lib.pictures import PALETTE, in_the_dark

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
FONT = STATIC / "fonts" / "bricolage-grotesque.woff2"
HEADING = '"Bricolage Grotesque",system-ui,sans-serif'
PAGE_AT_NIGHT = "#10161E"  # as in book.css


def heading_font() -> str:
    """Return the rule that holds the font of the headings."""
    data = base64.b64encode(FONT.read_bytes()).decode("ascii")
    source = f'url("data:font/woff2;base64,{data}") format("woff2")'
    return f'@font-face{{font-family:"Bricolage Grotesque";font-weight:500 700;font-display:swap;src:{source}}}'


def color_variables() -> str:
    """Return the rules for the colours of text, links, lines and the page, dark where the reader has chosen so."""
    names = ("ink", "quiet", "faint", "link", "plain")
    light = "".join(f"--{name}:{PALETTE[name]};" for name in names) + "--page:#FFF;color-scheme:light"
    dark = "".join(f"--{name}:{in_the_dark(PALETTE[name])};" for name in names)
    return f":root{{{light}}}:root[data-theme=dark]{{{dark}--page:{PAGE_AT_NIGHT};color-scheme:dark}}"
