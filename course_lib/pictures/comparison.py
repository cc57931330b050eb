"""Two patterns of attention weights and their difference."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib
import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from .heatmaps import CELL, LABELS, LARGEST_WITH_NUMBERS, STYLE, WIDTH, draw_pattern, hatch, labels_of, patterns_of
from .picture import Picture

EQUAL = 1e-6  # weights that differ by less are called equal


def compare(
    a: Tensor,
    b: Tensor,
    words: Sequence[str] | None = None,
    *,
    key_words: Sequence[str] | None = None,
    names: Sequence[str] = ("a", "b"),
    title: str = "",
) -> Picture:
    """Draw two patterns on one scale, and a - b on a scale of its own that is the same up and down.

    Args:
        a, b: (query, key), or with leading axes of size 1; from 0 to 1.
        words: labels of the queries, and of the keys unless key_words is given; numbers if None.
        key_words: labels of the keys, where they aren't the queries'.
        names: what a and b are called.
        title: stands above the drawing.

    Returns:
        Picture; its caption says where the two differ most.

    Raises:
        ValueError: patterns of different shapes, outside 0 to 1, labels that don't fit.
        TypeError: what isn't a floating-point tensor.
    """
    one, two = patterns_of(a, leading=2)[0], patterns_of(b, leading=2)[0]
    if one.shape != two.shape:
        raise ValueError(f"a {one.shape} and b {two.shape} differ in shape: compare patterns of the same tokens.")
    if len(names) != 2:
        raise ValueError(f"names has {len(names)} entries: give two, for a and b.")
    queries = labels_of("words", words, one.shape[0])
    square = key_words is None and one.shape[0] == one.shape[1]
    keys = labels_of("key_words", words if square else key_words, one.shape[1])
    difference = one - two
    largest = float(np.abs(difference).max())
    if largest < EQUAL:
        said = f"{names[0]} and {names[1]} are equal: no weight differs by {EQUAL:.0e}."
        difference = np.zeros_like(difference)
    else:
        query, key = np.unravel_index(np.abs(difference).argmax(), difference.shape)
        said = (
            f"{names[0]} and {names[1]} differ most where {queries[query]!r} looks at {keys[key]!r}: "
            f"{one[query, key]:.2f} and {two[query, key]:.2f}, a difference of {difference[query, key]:+.2f}."
        )
    with matplotlib.rc_context(STYLE):
        svg = _svg(one, two, difference, queries, keys, names, title)
    rows = "; ".join(
        f"{query} " + ", ".join(f"{key} {difference[q, k]:+.2f}" for k, key in enumerate(keys) if difference[q, k])
        for q, query in enumerate(queries)
        if difference[q].any()
    )
    if max(one.shape) > LARGEST_WITH_NUMBERS or not rows:
        rows = ""
    words_said = f"{said} {names[0]} minus {names[1]}, by query: {rows}." if rows else said
    return Picture(svg=svg, words=words_said, caption=said)


def _svg(
    one: np.ndarray,
    two: np.ndarray,
    difference: np.ndarray,
    queries: list[str],
    keys: list[str],
    names: Sequence[str],
    title: str,
) -> str:
    cell = min(CELL, (WIDTH / 3 - LABELS) / max(one.shape))
    width = 3 * (cell * one.shape[1] + LABELS) + 1.6
    figure = Figure(figsize=(width, cell * one.shape[0] + 1.1), layout="constrained", facecolor="white")
    left, middle, right = figure.subplots(1, 3)
    hidden = (one == 0) & (two == 0)
    for ax, pattern, name in ((left, one, names[0]), (middle, two, names[1])):
        draw_pattern(ax, pattern, hidden, queries, keys, name, cell)
        ax.set_ylabel("query" if ax is left else "")
    _draw_difference(right, difference, hidden, queries, keys, f"{names[0]} - {names[1]}", cell)
    bars = ((left, [left, middle], "weight", [0, 0.5, 1]), (right, [right], "difference", None))
    for ax, beside, label, ticks in bars:
        bar = figure.colorbar(ax.collections[0], ax=beside, ticks=ticks, label=label, shrink=0.7, fraction=0.05)
        bar.solids.set_rasterized(True)
        bar.outline.set_visible(False)
    if title:
        figure.suptitle(title)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "attention-course"})
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]


def _draw_difference(
    ax: Axes,
    difference: np.ndarray,
    hidden: np.ndarray,
    queries: list[str],
    keys: list[str],
    name: str,
    cell: float,
) -> None:
    small = max(difference.shape) <= LARGEST_WITH_NUMBERS
    limit = max(float(np.abs(difference).max()), 0.01)
    seaborn.heatmap(
        difference,
        ax=ax,
        mask=hidden,
        vmin=-limit,
        vmax=limit,
        cmap="PuOr",  # told apart with the common colour blindnesses; the numbers carry their sign as well
        square=True,
        cbar=False,
        annot=small,
        annot_kws={"size": min(9.0, 17 * cell), "color": "black"},
        fmt="+.2f",
        linewidths=1 if small else 0,
        linecolor="white",
        xticklabels=keys if small else "auto",
        yticklabels=queries if small else "auto",
        rasterized=not small,
    )
    for number in ax.texts:  # the darkest cells want white numbers
        if abs(float(number.get_text())) > 0.7 * limit:
            number.set_color("white")
    hatch(ax, hidden)
    ax.set(title=name, xlabel="key")
    ax.tick_params(axis="x", rotation=45 if max(map(len, keys)) * 0.085 > cell else 0, length=0)
    ax.tick_params(axis="y", rotation=0, length=0)
