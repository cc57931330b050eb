"""Draw the two pictures of a recording: the preview of its address, and the thumbnail in the list."""

from html import escape
from pathlib import Path
from textwrap import fill

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from course_lib.pictures import PALETTE, SHADES, head_color, weight_color, with_dark_colors
from course_lib.recorder import Recording
from course_lib.recording_page import story_of

SIZE = (12, 6.3)  # inches; 100 pixels each, what sites show without cutting
LINE = 42  # letters of a title that fit into a line
MOST = 2  # tables
WIDTH, HEIGHT = 300, 158  # of the list's pictures
TOP, SIDE, GAP = 38, 12, 10
CELL = 20  # the most pixels of a cell's width
STRIP = 3  # pixels: the height of a head's colour above its table
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"><style>
text{{font:600 15px system-ui,sans-serif;text-anchor:middle;fill:{ink}}}
</style>
<text x="{middle:g}" y="24">{tag}</text>
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
        colors, most = LinearSegmentedColormap.from_list("", SHADES), max(1.0, float(matrix.max()))
        axes.imshow(matrix.numpy(), cmap=colors, aspect="auto", vmin=0, vmax=most)
        axes.set_axis_off()
        for row, values in enumerate(texts(matrix)):
            for column, value in enumerate(values):
                axes.text(column, row, value, ha="center", va="center", fontsize=14)
    return figure


def write_thumbnail(path: Path, recording: Recording, tag: str) -> None:
    """Write a small drawing: a few words, and the attention weights of each head, under a strip of its colour.

    Where there are no weights, the last result is drawn, each cell in the colour of the head that it belongs to.
    """
    tables, heads, are_weights = shown_tables(recording)
    count, rows, columns = tables.shape
    wide = min(CELL, (WIDTH - 2 * SIDE - (count - 1) * GAP) / (count * columns))
    high = min(CELL, (HEIGHT - TOP - SIDE) / rows)
    left = (WIDTH - count * columns * wide - (count - 1) * GAP) / 2
    cells = []

    def cell(x: float, y: float, width: float, height: float, color: str) -> None:
        size = f'width="{width:.1f}" height="{height:.1f}"'
        cells.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} style="fill:{color}"/>\n')

    for (number, row, column), value in np.ndenumerate(tables.numpy()):
        x, y = left + number * (columns * wide + GAP) + column * wide, TOP + row * high
        color = head_color(int(heads[number, row, column]))
        cell(x, y, wide - 1, high - 1, weight_color(float(value)) if are_weights else color)
        if are_weights and not row and not column:
            cell(x, y - STRIP - 1, columns * wide - 1, STRIP, color)
    svg = SVG.format(
        width=WIDTH, height=HEIGHT, middle=WIDTH / 2, ink=PALETTE["ink"], tag=escape(tag), cells="".join(cells)
    )
    path.write_text(with_dark_colors(svg), encoding="utf-8")


def shown_tables(recording: Recording) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Return the tables that a thumbnail shows, the head of each of their cells, and whether they hold weights."""
    weights = [step.tensor.detach().float().flatten(0, -3) for step in recording if step.op == "softmax"]
    if weights:
        tables = torch.cat(weights)
        return tables, torch.arange(len(tables)).view(-1, 1, 1).expand(tables.shape), True
    shown = story_of(recording).stages[-1].result
    heads = torch.tensor([head or 0 for _, head in shown.owners]).view(shown.shape)
    return torch.ones(shown.shape).flatten(0, -3), heads.flatten(0, -3), False


def matrices(recording: Recording) -> torch.Tensor:
    """Return the tables of the step that the pictures show."""
    named = [step for step in recording if step.name == "weights"] or [recording[-1]]
    shown = named[-1].tensor.detach().float()
    return shown.reshape(-1, *shown.shape[-2:])


def texts(matrix: torch.Tensor) -> list[list[str]]:
    """Return the numbers of a table as a recording's page writes them: whole, or with two decimals."""
    decimals = 0 if torch.equal(matrix, matrix.round()) else 2
    return [[f"{value:.{decimals}f}" for value in row] for row in matrix.tolist()]
