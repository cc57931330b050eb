"""Give a drawn picture a second set of colours, for readers of the dark theme."""

import base64
import re
from pathlib import Path

from course_lib.pictures import PALETTE

from .palette import COLOR, in_the_dark

STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
PAINT = re.compile(r'\b(fill|stroke)="(#[0-9A-Fa-f]{3,6})"')
INLINE = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})")  # as matplotlib writes it
EMBEDDED = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")
NUMBER = re.compile(r"<text( [^>]*>[-−+]?[\d.]+</text>)")
MATPLOTLIB = "figure_1"  # how it names the outermost group
CELLS = "[id^=QuadMesh]"  # the cells of a heatmap, whose colours are its numbers


def with_dark_colors(svg: str) -> str:
    """Return the drawing with a rule for each of its colours that holds where the page around it is dark.

    The browser asks the element that shows the drawing: book.css sets its `color-scheme` with the theme. The cells of a
    heatmap and the numbers in them keep their colours.
    """
    rules = [COLOR.sub(lambda found: in_the_dark(found[0]), text) for text in STYLE.findall(svg)]
    for kind, color in sorted(set(PAINT.findall(svg))):
        rules.append(f'[{kind}="{color}"]{{{kind}:{in_the_dark(color)}}}')
    if MATPLOTLIB in svg:
        svg = NUMBER.sub(r'<text class="n"\1', svg)
        for kind, color in sorted(set(INLINE.findall(svg))):
            but = f":not({CELLS} *, {CELLS} ~ g > .n)" if kind == "fill" else ""
            rules.append(f'[style*="{kind}: {color}"]{but}{{{kind}:{in_the_dark(color)}!important}}')
        rules.append(f'text:not([style*="fill:"], {CELLS} ~ [id^=text] > .n){{fill:{in_the_dark(PALETTE["ink"])}}}')
    dark = f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"
    return dark.join(svg.rsplit("</svg>", 1)) + "</svg>"


def with_dark_pictures(html: str) -> str:
    """Return a stored output whose embedded drawings have colours for both themes."""

    def both(found: re.Match[str]) -> str:
        svg = base64.b64decode(found[1]).decode("utf-8")
        return f"data:image/svg+xml;base64,{base64.b64encode(with_dark_colors(svg).encode('utf-8')).decode('ascii')}"

    return EMBEDDED.sub(both, html)


def add_dark_colors(html: Path) -> None:
    """Give all drawings of the built book colours for both themes."""
    for page in html.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if "data:image/svg" in text:
            page.write_text(with_dark_pictures(text), encoding="utf-8")
    for drawing in (*html.glob("_images/*.svg"), *html.glob("_static/pictures/*.svg")):
        drawing.write_text(with_dark_colors(drawing.read_text(encoding="utf-8")), encoding="utf-8")
