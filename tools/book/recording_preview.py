"""Draw the two pictures of a recording: the one that its address shows where it is sent, and the one of the list."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from course_lib.recorder import Recording

from .palette import colors, in_the_dark

SIZE = (12, 6.3)  # inches; 100 pixels each, what sites show without cutting
LINE = 42  # letters of a title that fit into a line
MOST = 2  # tables
WIDTH, HEIGHT = 300, 158  # of the list's pictures
CELL = (46, 24)
DARKEST = 0.4  # how much of the blue the largest number has behind it, so that it can be read in both themes
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"><style>
text{{font:13px system-ui,sans-serif;text-anchor:middle;fill:{ink}}}rect{{fill:{link}}}
@media (prefers-color-scheme:dark){{text{{fill:{dark_ink}}}rect{{fill:{dark_link}}}}}
</style>
{cells}</svg>
"""


def write_preview(path: Path, recording: Recording, title: str, about: str) -> None:
    """Write a PNG with the title and the numbers of one step: the attention weights, or the last result."""
    preview(recording, title, about).savefig(path, metadata={"Software": None})


def preview(recording: Recording, title: str, about: str) -> Figure:
    """Return what `write_preview` saves."""
    figure = Figure(figsize=SIZE, dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.05, 0.9, fill(title, LINE), fontsize=30, weight="bold", va="top")
    figure.text(0.05, 0.7 if len(title) > LINE else 0.77, fill(about, 80), fontsize=17, va="top", color="#57606A")
    for number, matrix in enumerate(matrices(recording)[:MOST]):
        axes = figure.add_axes((0.06 + 0.46 * number, 0.06, 0.42, 0.52))
        axes.imshow(matrix.numpy(), cmap="Blues", aspect="auto", alpha=0.6)
        axes.set_axis_off()
        for row, values in enumerate(texts(matrix)):
            for column, value in enumerate(values):
                axes.text(column, row, value, ha="center", va="center", fontsize=14)
    return figure


def write_thumbnail(path: Path, recording: Recording) -> None:
    """Write a drawing of the same numbers, those of one head, in the colours of the page around it."""
    matrix = matrices(recording)[0]
    rows, columns = matrix.shape
    (wide, high), largest = CELL, float(matrix.abs().max())
    left, top = (WIDTH - columns * wide) / 2, (HEIGHT - rows * high) / 2
    cells = []
    for row, values in enumerate(texts(matrix)):
        for column, value in enumerate(values):
            x, y = left + column * wide, top + row * high
            shade = DARKEST * abs(float(matrix[row, column])) / largest
            cells.append(
                f'<rect x="{x + 1:g}" y="{y + 1:g}" width="{wide - 2}" height="{high - 2}" fill-opacity="{shade:.2f}"/>'
                f'<text x="{x + wide / 2:g}" y="{y + high / 2 + 4.5:g}">{value}</text>\n'
            )
    ink, link = colors()["ink"], colors()["link"]
    svg = SVG.format(
        width=WIDTH,
        height=HEIGHT,
        ink=ink,
        link=link,
        dark_ink=in_the_dark(ink),
        dark_link=in_the_dark(link),
        cells="".join(cells),
    )
    path.write_text(svg, encoding="utf-8")


def matrices(recording: Recording) -> torch.Tensor:
    """Return the tables of the step that the pictures show."""
    named = [step for step in recording if step.name == "weights"] or [recording[-1]]
    shown = named[-1].tensor.detach().float()
    return shown.reshape(-1, *shown.shape[-2:])


def texts(matrix: torch.Tensor) -> list[list[str]]:
    """Return the numbers of a table as a recording's page writes them: whole, or with two decimals."""
    decimals = 0 if torch.equal(matrix, matrix.round()) else 2
    return [[f"{value:.{decimals}f}" for value in row] for row in matrix.tolist()]
