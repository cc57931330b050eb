"""Draw the picture that a recording's address shows where it is sent."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from course_lib.recorder import Recording

SIZE = (12, 6.3)  # inches; 100 pixels each, what sites show without cutting
MOST = 2  # tables


def write_preview(path: Path, recording: Recording, title: str, about: str) -> None:
    """Write a PNG with the title and the numbers of one step: the attention weights, or the last result."""
    figure = Figure(figsize=SIZE, dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.05, 0.9, fill(title, 48), fontsize=30, weight="bold", va="top")
    figure.text(0.05, 0.7 if len(title) > 48 else 0.77, fill(about, 80), fontsize=17, va="top", color="#57606A")
    named = [step for step in recording if step.name == "weights"] or [recording[-1]]
    matrices = named[-1].tensor.detach().float()
    matrices = matrices.reshape(-1, *matrices.shape[-2:])[:MOST]
    for number, matrix in enumerate(matrices):
        axes = figure.add_axes((0.06 + 0.46 * number, 0.06, 0.42, 0.52))
        axes.imshow(matrix, cmap="Blues", aspect="auto", alpha=0.6)
        axes.set_axis_off()
        for row, values in enumerate(matrix.tolist()):
            for column, value in enumerate(values):
                axes.text(column, row, f"{value:.4g}"[:5], ha="center", va="center", fontsize=14)
    figure.savefig(path, metadata={"Software": None})
