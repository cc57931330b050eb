"""Make the pictures that a messenger or a forum shows beside a link to a page: one for each kind of page."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

from course_lib.pictures import Picture
from course_lib.pictures.style import INK, QUIET
from tools import figures

from .drawing import Place, draw

WIDTH, HEIGHT = 1200, 630  # pixels, the size that all of those who show previews ask for
FOLDER = "previews"  # below the site's _static
TOP, EDGE = 118, 40  # where the picture begins, and the margin on the other sides


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
        drawing = io.BytesIO()
        drawn(preview).savefig(drawing, dpi=100)
        Image.open(drawing).convert("RGB").quantize(64).save(folder / f"{kind}.png", optimize=True)


def drawn(preview: Preview) -> Figure:
    """Return the preview as a figure of 1200 by 630 pixels."""
    svg = ElementTree.fromstring(preview.picture().svg)
    width, height = float(svg.get("width", 0)), float(svg.get("height", 0))
    scale = min((WIDTH - 2 * EDGE) / width, (HEIGHT - TOP - EDGE / 2) / height)
    with matplotlib.rc_context({"font.family": ["sans-serif"]}):
        figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        axes.axis("off")
        axes.text(EDGE, 58, preview.heading, fontsize=25, weight="bold", color=INK)
        axes.text(EDGE, 98, preview.line, fontsize=16, color=QUIET)
        draw(axes, svg, Place((WIDTH - width * scale) / 2, TOP, scale))
        return figure
