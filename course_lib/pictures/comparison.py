"""Two patterns of attention weights and their difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from .fonts import style_for
from .heatmaps import labels_of, patterns_of
from .pattern_drawing import (
    CELL,
    LABELS,
    LARGEST_WITH_NUMBERS,
    Scale,
    add_bar,
    draw_pattern,
    svg_of,
)
from .picture import Picture

EQUAL = 1e-6  # weights that differ by less are called equal
SIDE = 2.0  # inches of a pattern, so that three fit a notebook's width


def compare(
    a: Tensor,
    b: Tensor,
    words: Sequence[str] | None = None,
    *,
    key_words: Sequence[str] | None = None,
    names: Sequence[str] = ("a", "b"),
    title: str = "",
) -> Picture:
    """Draw two patterns on the scale from 0 to 1, and a - b on a scale of its own, as far up as down.

    Cells of exactly 0 in both are hidden and hatched. Where a and b are equal, the difference has no colour.

    Args:
        a, b: (query, key), or with leading axes of size 1; from 0 to 1.
        words: labels of the queries, and of the keys unless key_words is given; numbers if None.
        key_words: labels of the keys, where they aren't the queries'.
        names: what a and b are called.
        title: stands above the drawing.

    Returns:
        Picture; its caption says where the two differ most.

    Raises:
        ValueError: patterns of different shapes or outside 0 to 1, labels that don't fit.
        TypeError: what isn't a floating-point tensor.

    Example:
        >>> print(compare(torch.eye(2), torch.full((2, 2), 0.5), ("x", "y"), names=("sharp", "flat")).caption)
        Sharp and flat differ most where "x" looks at "x": 1.00 and 0.50, a difference of +0.50.
    """
    one, two = (patterns_of(weights, leading=2, name=name)[0] for weights, name in ((a, "a"), (b, "b")))
    if one.shape != two.shape:
        raise ValueError(f"a {one.shape} and b {two.shape} differ in shape: compare patterns of the same tokens.")
    if isinstance(names, str) or len(names) != 2:
        raise ValueError(f"names must be two, for a and b, got {names!r}.")
    query_len, key_len = one.shape
    queries = labels_of("words", words, query_len)
    keys = labels_of("key_words", words if key_words is None and query_len == key_len else key_words, key_len)
    difference = one - two
    size = np.abs(difference)
    if size.max() < EQUAL:
        difference = np.zeros_like(difference)
        caption = f"{names[0]} and {names[1]} are equal: no weight differs by a millionth."
    else:
        # The first of equal ones: a row of two keys has the same difference twice, and rounding must not choose.
        query, key = np.unravel_index((size > size.max() - EQUAL).argmax(), size.shape)
        caption = (
            f'{names[0]} and {names[1]} differ most where "{queries[query]}" looks at "{keys[key]}": '
            f"{one[query, key]:.2f} and {two[query, key]:.2f}, a difference of {_precise(difference[query, key])}."
        )
    caption = _sentence(caption)
    with style_for(*queries, *keys, *names, title):
        svg = _svg(one, two, difference, queries, keys, names, title)
    said = f"Attention weights of {names[0]} and {names[1]}, {query_len} queries by {key_len} keys. {caption}"
    rows = _rows(difference, queries, keys)
    if rows and max(one.shape) <= LARGEST_WITH_NUMBERS:
        said += " " + _sentence(f"{names[0]} minus {names[1]}, where two decimals show it: {'; '.join(rows)}.")
    return Picture(svg=svg, words=f"{title}: {said}" if title else said, caption=caption)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def signed(number: float) -> str:
    """A difference with its sign and two decimals, or a bare 0 where they would all be zeros."""
    return "0" if abs(number) < 0.005 else f"{number:+.2f}"


def _precise(number: float) -> str:
    """The same, but never 0: +0.12, -0.0004."""
    return f"{number:+.1g}" if signed(number) == "0" else signed(number)


def _rows(difference: np.ndarray, queries: list[str], keys: list[str]) -> list[str]:
    """The differences of each query that has any, in words."""
    texts = [
        (query, ", ".join(f"{key} {signed(d)}" for key, d in zip(keys, row, strict=True) if signed(d) != "0"))
        for query, row in zip(queries, difference.tolist(), strict=True)
    ]
    return [f"{query}: {text}" for query, text in texts if text]


def _svg(
    one: np.ndarray,
    two: np.ndarray,
    difference: np.ndarray,
    queries: list[str],
    keys: list[str],
    names: Sequence[str],
    title: str,
) -> str:
    query_len, key_len = one.shape
    cell = min(CELL, SIDE / max(one.shape))
    size = (3 * (cell * key_len) + 2 * LABELS + 1.9, cell * query_len + (1.5 if title else 1.1))
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    left, middle, right = figure.subplots(1, 3)
    hidden = (one == 0) & (two == 0)
    limit = float(np.abs(difference).max())
    # Orange and purple are told apart with each common colour blindness; the numbers carry their sign as well.
    scale = Scale(-limit or -1.0, limit or 1.0, "PuOr", signed)
    draw_pattern(left, one, hidden, queries, keys, names[0], cell)
    draw_pattern(middle, two, hidden, queries, keys, names[1], cell)
    draw_pattern(right, difference, hidden, queries, keys, f"{names[0]} - {names[1]}", cell, scale)
    for ax, points in ((left, 24), (middle, 24), (right, 22)):  # an inch of cell holds; signs need room as well
        for number in ax.texts:
            number.set_fontsize(min(10.0, points * cell))
    left.set_ylabel("query")
    middle.set_yticklabels([])  # the queries are those of the left
    add_bar(figure, left, [left, middle], "weight", [0, 0.5, 1])
    if limit:
        add_bar(figure, right, [right], "difference", [-limit, 0, limit])
        figure.axes[-1].set_yticklabels([_precise(-limit), "0", _precise(limit)])
    if title:
        figure.suptitle(title, weight="bold")
    return svg_of(figure)
