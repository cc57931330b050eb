"""Heatmaps of attention weights: rows are queries, columns are keys, one colour scale from 0 to 1."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from course_lib.pictures.picture import Picture

from .pattern import WEIGHTS, Pattern, check_keep, check_labels, check_weights
from .pattern_drawing import patterns_picture

MEASURE = "attention weights"


def heatmap(
    weights: Tensor,
    words: Sequence[object] | None = None,
    *,
    key_words: Sequence[object] | None = None,
    keep: Tensor | None = None,
    title: str | None = None,
    measure: str = MEASURE,
) -> Picture:
    """Draw the attention weights of one head.

    Args:
        weights: (query, key), or with leading axes of size 1; from 0 to 1.
        words: labels of the queries, and of the keys unless key_words is given; their indices if None.
        key_words: labels of the keys, if they differ from the queries'.
        keep: bool, (query, key), True = may attend; hidden cells are hatched. Without it, cells of exactly 0 are.
        title: the title above the drawing.
        measure: what the numbers are, if they aren't attention weights, such as "scores, scaled to 0 to 1".

    Raises:
        ValueError: If weights has a different shape or elements outside 0 to 1, or labels or a mask does not fit.
        TypeError: If weights isn't a floating-point tensor, or the mask isn't a tensor.

    Example:
        >>> heatmap(torch.eye(2), ("a", "b"))
        Attention weights, 2 queries by 2 keys. a: a 1.00; hidden: b. b: b 1.00; hidden: a.
        Rows are queries, columns are keys; each row sums to 1. Hatched cells are hidden: their weight is 0.
    """
    values = check_weights(weights, "query key")
    patterns = _patterns(values, words, key_words, keep, [""], measure)
    return patterns_picture(patterns, title or "", _describe(patterns, title, measure), _caption(patterns, measure))


def head_heatmaps(
    weights: Tensor,
    words: Sequence[object] | None = None,
    *,
    key_words: Sequence[object] | None = None,
    keep: Tensor | None = None,
    titles: Sequence[str] | None = None,
    title: str | None = None,
    measure: str = MEASURE,
) -> Picture:
    """Draw the attention weights of all heads on one colour scale.

    Args:
        weights: (head, query, key), or (1, head, query, key); from 0 to 1.
        words: labels of the queries, and of the keys unless key_words is given; their indices if None.
        key_words: labels of the keys, if they differ from the queries'.
        keep: bool, (query, key) or (head, query, key), True = may attend. Without it, cells of exactly 0 are hatched.
        titles: one per head; "head 0", "head 1", ... if None.
        title: the title above the drawing.
        measure: what the numbers are, if they aren't attention weights.

    Raises:
        ValueError: If weights has a different shape or elements outside 0 to 1, or labels, titles or a mask does not
            fit.
        TypeError: If weights isn't a floating-point tensor, or the mask isn't a tensor.
    """
    values = check_weights(weights, "head query key")
    titles = [f"head {head}" for head in range(len(values))] if titles is None else list(titles)
    if len(titles) != len(values):
        raise ValueError(f"titles has {len(titles)} entries for {len(values)} heads: give one per head.")
    patterns = _patterns(values, words, key_words, keep, titles, measure)
    return patterns_picture(patterns, title or "", _describe(patterns, title, measure), _caption(patterns, measure))


def _caption(patterns: Sequence[Pattern], measure: str) -> str:
    """Say what the rows sum to, and what hatched cells are."""
    if measure != MEASURE:
        return "Rows are queries, columns are keys."
    sums = np.stack([pattern.values.sum(axis=-1) for pattern in patterns])
    full, empty = np.isclose(sums, 1.0, atol=2e-2), sums == 0.0  # 2e-2 allows for bfloat16
    total = "rows don't all sum to 1."
    if full.all():
        total = "each row sums to 1."
    elif (full | empty).all():
        total = "each row sums to 1, or to 0 where a query sees nothing."
    hides = any(pattern.hidden.any() for pattern in patterns)
    hatched = " Hatched cells are hidden: their weight is 0." if hides else ""
    return f"Rows are queries, columns are keys; {total}{hatched}"


def _describe(patterns: Sequence[Pattern], title: str | None, measure: str) -> str:
    return "\n".join(_words(pattern, ", ".join(filter(None, (title, pattern.title))), measure) for pattern in patterns)


def _words(pattern: Pattern, title: str, measure: str) -> str:
    """Describe every weight and every hidden cell, or of a large pattern only the strongest key of each query."""
    query_len, key_len = pattern.values.shape
    text = f"{title}: {measure}" if title else measure[0].upper() + measure[1:]
    text += f", {query_len} queries by {key_len} keys."
    rows = zip(pattern.queries, pattern.values, pattern.hidden, strict=True)
    if not pattern.with_values:
        strongest = [f"{query} most to {pattern.keys[row.argmax()]} {row.max():.2f}" for query, row, _ in rows]
        return f"{text} {'; '.join(strongest)}."
    for query, row, hidden in rows:
        seen = ", ".join(f"{pattern.keys[key]} {row[key]:.2f}" for key in np.flatnonzero(~hidden).tolist())
        unseen = ", ".join(pattern.keys[key] for key in np.flatnonzero(hidden).tolist())
        text += f" {query}: {seen or 'nothing'}" + (f"; hidden: {unseen}." if unseen else ".")
    return text


def _patterns(
    values: np.ndarray,
    words: Sequence[object] | None,
    key_words: Sequence[object] | None,
    keep: Tensor | None,
    titles: Sequence[str],
    measure: str,
) -> list[Pattern]:
    queries, keys = check_labels(words, key_words, values.shape)
    hidden = check_keep(keep, values)
    scale = WEIGHTS if measure == MEASURE else replace(WEIGHTS, label=measure)
    return [Pattern(values[head], hidden[head], queries, keys, title, scale) for head, title in enumerate(titles)]
