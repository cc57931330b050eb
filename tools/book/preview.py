"""Draw the pictures that messengers and forums show beside a link, one for each kind of page."""

import base64
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape, unescape
from pathlib import Path

import matplotlib
import resvg_py
from PIL import Image

from course_lib.pictures import PALETTE, Picture, live
from tools import figures

from .lessons import read

WIDTH, HEIGHT = 1200, 630  # pixels, the size that all of those who show previews ask for
FOLDER = "previews"  # below the site's _static
TOP, EDGE = 118, 40  # where the picture begins, and the margin on the other sides
FONTS = {  # matplotlib's own, which are on every machine
    "font_dirs": [f"{matplotlib.get_data_path()}/fonts/ttf"],
    "font_family": "DejaVu Sans",
    "sans_serif_family": "DejaVu Sans",
    "monospace_family": "DejaVu Sans Mono",
    "skip_system_fonts": True,
}


@dataclass(frozen=True)
class Preview:
    """What a kind of page shows of itself: two lines above one of the course's pictures."""

    heading: str
    line: str
    picture: Callable[[], Picture]
    words: str  # what the picture shows, for those who can't see it

    @property
    def alt(self) -> str:
        """Return the whole preview in words."""
        return f"{self.heading}: {self.line} {self.words}"


COURSE = "Write attention from scratch in PyTorch, and prove every step."
PREVIEWS = {
    "front": Preview(
        "Attention, from one head to multi-query",
        COURSE,
        figures.why_transpose,
        "Why view, and then transpose? A table of queries has become one for each head, and memory has not moved.",
    ),
    "lesson": Preview(
        "A lesson on attention in PyTorch",
        "Every number and every picture comes from the code on the page.",
        figures.attention_within_each_head,
        "For each of two heads: scores, attention weights under a causal mask, and context.",
    ),
    "story": Preview(
        "A storyteller",
        "A small model writes little stories, and every word shows where it looked.",
        lambda: live.own_words().picture,
        "The words of a story, and how much a head gives to each of them.",
    ),
    "mistake": Preview(
        "A mistake in attention code that no error reports",
        "The code, what the doctor says of it, and the line to write instead.",
        figures.the_wrong_view,
        "A view without a transpose mixes the tokens of different rows in one head.",
    ),
    "recording": Preview(
        "A recorded forward pass, operation by operation",
        "Point at a number and see where it came from.",
        figures.input_projection,
        "The input times the weight matrix W_q gives the queries; one row and one column are outlined.",
    ),
}
STORED = re.compile(
    r'<img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]+)">.*?<figcaption>(.*?)</figcaption>', re.DOTALL
)
MOVES = "A figure that moves: drag, press or type, and the numbers answer."
OF_LESSONS = {  # the figure whose question a lesson's page shows
    "01_single_head": "drag_the_query",
    "02_masks_and_dropout": "who_may_look",
    "04_reshape_and_transpose": "why_transpose",
    "06_multi_query": "share_keys_and_values",
    "07_order": "turn",
    "09_llama": "decode",
    "14_fast": "roofline",
    "16_many_devices": "devices",
}
LESSONS = {path.stem: path for path in sorted(Path(__file__).parents[2].glob("notebooks/[0-9][0-9]_*.ipynb"))}
OTHERS = [lesson for lesson in LESSONS if lesson not in OF_LESSONS]  # each shows its first picture
KINDS = (*PREVIEWS, *(name for name in live.__all__ if name != "Figure"), *OTHERS)


@cache
def preview_of(kind: str) -> Preview:
    """Return the preview of a kind of page, of a figure that moves, or of a lesson."""
    if kind in PREVIEWS:
        return PREVIEWS[kind]
    if kind in LESSONS:
        return _of_lesson(kind)
    figure: live.Figure = getattr(live, kind)()
    picture = PREVIEWS["front"].picture if kind == "why_transpose" else lambda: figure.picture
    return Preview(figure.title, MOVES, picture, figure.picture.caption)


def _of_lesson(lesson: str) -> Preview:
    """Return the preview of a lesson, with the first picture that its notebook stores."""
    cells = read(LESSONS[lesson]).cells
    pages = (output.get("data", {}).get("text/html", "") for cell in cells for output in cell.get("outputs", []))
    svg, caption = next(filter(None, map(STORED.search, pages))).groups()
    picture = Picture(svg=base64.b64decode(svg).decode(), description="", caption=unescape(caption))
    title = cells[0].source.splitlines()[0].removeprefix("# ")
    return Preview(title, PREVIEWS["lesson"].line, lambda: picture, picture.caption)


def write_previews(folder: Path) -> None:
    """Draw each preview as `<kind>.png`, in 64 colours, which halves the file and can't be seen."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        svg = svg_of(preview_of(kind))
        drawing = io.BytesIO(resvg_py.svg_to_bytes(svg_string=svg, background="white", dpi=96, **FONTS))
        Image.open(drawing).convert("RGB").quantize(64).save(folder / f"{kind}.png", optimize=True)


def svg_of(preview: Preview) -> str:
    """Return the preview as a drawing of 1200 by 630 pixels, in the styles of the picture that it holds."""
    picture = preview.picture().svg
    if part := re.match(r"<svg [^>]*>(<svg .*?</svg>)<svg y=", picture, re.DOTALL):  # of two, one above the other
        picture = part[1]
    size = re.compile(r'width="(\d+)" height="(\d+)"')
    width, height = map(float, size.findall(picture)[0])
    scale = min((WIDTH - 2 * EDGE) / width, (HEIGHT - TOP - EDGE / 2) / height)
    left = (WIDTH - width * scale) / 2
    moved_picture = size.sub(
        f'x="{left:g}" y="{TOP}" width="{width * scale:g}" height="{height * scale:g}"', picture, count=1
    )
    size, family = f'width="{WIDTH}" height="{HEIGHT}"', FONTS["font_family"]
    heading = f'font-size="34" font-weight="600" fill="{PALETTE["ink"]}"'
    line = f'font-size="22" fill="{PALETTE["quiet"]}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{family}">'
        f'<text x="{EDGE}" y="58" {heading}>{escape(preview.heading)}</text>'
        f'<text x="{EDGE}" y="98" {line}>{escape(preview.line)}</text>{moved_picture}</svg>'
    )
