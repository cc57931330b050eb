"""Heatmaps of attention weights: rows are queries, columns are keys, one colour scale from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from .fonts import style_for
from .pattern_drawing import CELL, LABELS, LARGEST_WITH_NUMBERS, WIDTH, add_bar, draw_pattern, svg_of
from .picture import Picture

READABLE_CELL = 0.4  # inches, the smallest that still holds a number


def heatmap(
    weights: Tensor,
    words: Sequence[str] | None = None,
    *,
    key_words: Sequence[str] | None = None,
    keep: Tensor | None = None,
    title: str = "",
) -> Picture:
    """Draw one pattern of attention weights.

    Args:
        weights: (query, key), or with leading axes of size 1; from 0 to 1.
        words: labels of the queries, and of the keys unless key_words is given; numbers if None.
        key_words: labels of the keys, where they aren't the queries'.
        keep: bool, (query, key), True = may attend; hidden cells are hatched. Without it, cells of exactly 0 are.
        title: stands above the drawing.

    Returns:
        Picture.

    Raises:
        ValueError: weights of another shape or outside 0 to 1, labels or a mask that don't fit.
        TypeError: weights that aren't a floating-point tensor, a mask that isn't a tensor.

    Example:
        >>> heatmap(torch.eye(2), ("a", "b"))
        Attention weights, 2 queries by 2 keys. a: a 1.00; hidden: b. b: b 1.00; hidden: a.
        Rows are queries, columns are keys; each row sums to 1. Hatched cells are hidden: their weight is 0.
    """
    pattern = patterns_of(weights, leading=2)
    return _draw(pattern, words, key_words, keep, [title])


def head_heatmaps(
    weights: Tensor,
    words: Sequence[str] | None = None,
    *,
    key_words: Sequence[str] | None = None,
    keep: Tensor | None = None,
    titles: Sequence[str] | None = None,
) -> Picture:
    """Draw the patterns of all heads side by side on one colour scale.

    Args:
        weights: (head, query, key), or (1, head, query, key); from 0 to 1.
        words: labels of the queries, and of the keys unless key_words is given; numbers if None.
        key_words: labels of the keys, where they aren't the queries'.
        keep: bool, (query, key) or (head, query, key), True = may attend. Without it, cells of exactly 0 are hatched.
        titles: one a head; "head 0", "head 1", ... if None.

    Returns:
        Picture.

    Raises:
        ValueError: weights of another shape or outside 0 to 1, labels, titles or a mask that don't fit.
        TypeError: weights that aren't a floating-point tensor, a mask that isn't a tensor.
    """
    patterns = patterns_of(weights, leading=1)
    titles = [f"head {head}" for head in range(len(patterns))] if titles is None else list(titles)
    if len(titles) != len(patterns):
        raise ValueError(f"titles has {len(titles)} entries for {len(patterns)} heads: give one a head.")
    return _draw(patterns, words, key_words, keep, titles)


def patterns_of(weights: Tensor, leading: int, name: str = "weights") -> np.ndarray:
    """Check the weights and bring them to (head, query, key) on the CPU; name is what errors call them."""
    if not isinstance(weights, Tensor) or not weights.is_floating_point():
        kind = weights.dtype if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(f"{name} must be a floating-point tensor, got {kind}.")
    wanted = "(query, key)" if leading == 2 else "(head, query, key)"
    own_axes = 4 - leading
    shape = tuple(weights.shape)
    if len(shape) < own_axes or any(size != 1 for size in shape[: len(shape) - own_axes]) or 0 in shape:
        raise ValueError(f"{name} must be {wanted} with at least one cell, got the shape {shape}: pick one sample.")
    patterns = weights.detach().to("cpu", torch.float64).reshape(-1, *shape[-2:])
    if not (patterns.min() >= -1e-6 and patterns.max() <= 1 + 1e-3):
        raise ValueError(
            f"{name} must lie between 0 and 1, got {patterns.min():.4g} to {patterns.max():.4g}: draw them after "
            "the softmax, in eval mode."
        )
    return patterns.numpy()


def _draw(
    patterns: np.ndarray,
    words: Sequence[str] | None,
    key_words: Sequence[str] | None,
    keep: Tensor | None,
    titles: Sequence[str],
) -> Picture:
    _, query_len, key_len = patterns.shape
    query_labels = labels_of("words", words, query_len)
    key_labels = labels_of("key_words", words if key_words is None and query_len == key_len else key_words, key_len)
    hidden = _hidden(keep, patterns)
    with style_for(*query_labels, *key_labels, *titles):
        svg = _svg(patterns, hidden, query_labels, key_labels, titles)
    sums = patterns.sum(axis=-1)
    full, empty = np.isclose(sums, 1.0, atol=2e-2), sums == 0.0  # 2e-2: weights in bfloat16
    caption = "Rows are queries, columns are keys"
    if full.all():
        caption += "; each row sums to 1."
    elif (full | empty).all():
        caption += "; each row sums to 1, or to 0 where a query sees nothing."
    else:
        caption += "; rows don't all sum to 1."
    if hidden.any():
        caption += " Hatched cells are hidden: their weight is 0."
    words_of_heads = [
        _in_words(pattern, hidden_cells, query_labels, key_labels, title)
        for pattern, hidden_cells, title in zip(patterns, hidden, titles, strict=True)
    ]
    return Picture(svg=svg, words="\n".join(words_of_heads), caption=caption)


def labels_of(name: str, words: Sequence[str] | None, size: int) -> list[str]:
    """One label a token; its number if there are none."""
    if words is None:
        return [str(i) for i in range(size)]
    if len(words) != size:
        raise ValueError(f"{name} has {len(words)} labels for {size} tokens: give one a token.")
    return [str(word) for word in words]


def _hidden(keep: Tensor | None, patterns: np.ndarray) -> np.ndarray:
    if keep is None:
        return patterns == 0.0
    if not isinstance(keep, Tensor):
        raise TypeError(f"keep must be a bool tensor with True = may attend, got {type(keep).__name__}.")
    if keep.dtype != torch.bool or keep.dim() not in (2, 3) or tuple(keep.shape[-2:]) != patterns.shape[-2:]:
        raise ValueError(
            f"keep must be bool of shape (query, key) = {patterns.shape[-2:]}, got {keep.dtype} {tuple(keep.shape)}."
        )
    return np.broadcast_to(~keep.cpu().numpy(), patterns.shape)


def _svg(
    patterns: np.ndarray, hidden: np.ndarray, query_labels: list[str], key_labels: list[str], titles: Sequence[str]
) -> str:
    num_heads, query_len, key_len = patterns.shape
    narrowest = READABLE_CELL * key_len if max(query_len, key_len) <= LARGEST_WITH_NUMBERS else 4 * READABLE_CELL
    rows = math.ceil(num_heads / max(1, int(WIDTH // (narrowest + LABELS))))
    columns = math.ceil(num_heads / rows)  # rows of equal length
    cell = min(CELL, (WIDTH / columns - LABELS) / max(query_len, key_len))  # a large pattern gets small cells
    width = columns * (cell * key_len + LABELS) + 0.9
    height = rows * (cell * query_len + 0.9)
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat[num_heads:]:
        ax.set_axis_off()
    for head, ax in enumerate(axes.flat[:num_heads]):
        draw_pattern(ax, patterns[head], hidden[head], query_labels, key_labels, titles[head], cell)
        ax.set_ylabel("query" if head % columns == 0 else "")
    add_bar(figure, axes[0, 0], axes, "weight", [0, 0.5, 1])
    return svg_of(figure)


def _in_words(
    pattern: np.ndarray, hidden: np.ndarray, query_labels: list[str], key_labels: list[str], title: str
) -> str:
    query_len, key_len = pattern.shape
    text = f"{title}: attention" if title else "Attention"
    text += f" weights, {query_len} queries by {key_len} keys."
    if max(pattern.shape) > LARGEST_WITH_NUMBERS:  # too many to read out: the strongest key of each query
        best = pattern.argmax(axis=1)
        rows = [
            f"{query} most to {key_labels[k]} {pattern[q, k]:.2f}"
            for q, (query, k) in enumerate(zip(query_labels, best, strict=True))
        ]
        return text + " " + "; ".join(rows) + "."
    for q, query in enumerate(query_labels):
        seen = ", ".join(f"{key} {pattern[q, k]:.2f}" for k, key in enumerate(key_labels) if not hidden[q, k])
        unseen = ", ".join(key for k, key in enumerate(key_labels) if hidden[q, k])
        text += f" {query}: {seen or 'nothing'}" + (f"; hidden: {unseen}." if unseen else ".")
    return text
