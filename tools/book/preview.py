"""Draw the pictures that messengers and forums show beside a link, one for each kind of page."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import matplotlib
import resvg_py
from PIL import Image

from course_lib.pictures import Picture
from tools import figures

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
        figures.one_tensor_two_heads,
        "One table of queries is split by view and transpose into a table for each head.",
    ),
    "lesson": Preview(
        "A lesson on attention in PyTorch",
        "Every number and every picture comes from the code on the page.",
        figures.attention_within_each_head,
        "For each of two heads: scores, attention weights under a causal mask, and context.",
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


def write_previews(folder: Path) -> None:
    """Draw each preview as `<kind>.png`, in 64 colours, which halves the file and can't be seen."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, preview in PREVIEWS.items():
        drawing = io.BytesIO(resvg_py.svg_to_bytes(svg_string=svg_of(preview), background="white", **FONTS))
        Image.open(drawing).convert("RGB").quantize(64).save(folder / f"{kind}.png", optimize=True)


def svg_of(preview: Preview) -> str:
    """Return the preview as a drawing of 1200 by 630 pixels, in the styles of the picture that it holds."""
    picture = preview.picture().svg
    size = re.compile(r'width="(\d+)" height="(\d+)"')
    width, height = map(float, size.findall(picture)[0])
    scale = min((WIDTH - 2 * EDGE) / width, (HEIGHT - TOP - EDGE / 2) / height)
    left = (WIDTH - width * scale) / 2
    moved_picture = size.sub(
        f'x="{left:g}" y="{TOP}" width="{width * scale:g}" height="{height * scale:g}"', picture, count=1
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">'
        f'<text x="{EDGE}" y="58" font-size="34" class="b">{escape(preview.heading)}</text>'
        f'<text x="{EDGE}" y="98" font-size="22" class="q">{escape(preview.line)}</text>{moved_picture}</svg>'
    )
