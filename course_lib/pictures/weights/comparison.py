"""Compare the attention weights of two heads."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from course_lib.pictures.picture import Picture
from course_lib.wording import sentence

from .pattern import Pattern, Scale, check_labels, check_weights
from .pattern_drawing import patterns_picture

EQUAL = 1e-6  # weights that differ by less are called equal
READABLE = 0.35  # cell size in inches at which three tables of six tokens fit side by side


def compare(
    a: Tensor,
    b: Tensor,
    words: Sequence[object] | None = None,
    *,
    key_words: Sequence[object] | None = None,
    names: Sequence[str] = ("a", "b"),
    title: str | None = None,
) -> Picture:
    """Draw the attention weights of two heads on the scale from 0 to 1, and a - b on a symmetric scale of its own.

    Cells of exactly 0 in both are hidden and hatched. Where a and b are equal, the difference has no colour. The
    caption says where the two differ most.

    Args:
        a, b: (query, key), or with leading axes of size 1; from 0 to 1.
        words: labels of the queries, and of the keys unless key_words is given; their indices if None.
        key_words: labels of the keys, if they differ from the queries'.
        names: the names of a and b.
        title: the title above the drawing.

    Raises:
        ValueError: If the shapes differ, elements lie outside 0 to 1, or labels do not fit.
        TypeError: If a or b isn't a floating-point tensor.

    Example:
        >>> print(compare(torch.eye(2), torch.full((2, 2), 0.5), ("x", "y"), names=("sharp", "flat")).caption)
        Sharp and flat differ most where "x" looks at "x": 1.00 and 0.50, a difference of +0.50.
    """
    (of_a,), (of_b,) = check_weights(a, "query key", "a"), check_weights(b, "query key", "b")
    if of_a.shape != of_b.shape:
        raise ValueError(f"a {of_a.shape} and b {of_b.shape} differ in shape: compare weights of the same tokens.")
    if isinstance(names, str) or len(names) != 2:
        raise ValueError(f"names must be two, for a and b, got {names!r}.")
    queries, keys = check_labels(words, key_words, of_a.shape)
    hidden = (of_a == 0) & (of_b == 0)
    first = Pattern(of_a, hidden, queries, keys, names[0])
    second = replace(first, values=of_b, title=names[1], label_rows=False)
    difference = _difference(first, second)
    caption = _caption(first, second, difference.values)
    query_len, key_len = of_a.shape
    text = f"Attention weights of {names[0]} and {names[1]}, {query_len} queries by {key_len} keys. {caption}"
    rows = _rows(difference)
    if rows and first.with_values:
        text += " " + sentence(f"{names[0]} minus {names[1]}, where two decimals show it: {'; '.join(rows)}.")
    text = f"{title}: {text}" if title else text
    return patterns_picture((first, second, difference), title or "", text, caption, READABLE)


def _difference(first: Pattern, second: Pattern) -> Pattern:
    """Return the first minus the second on a scale of its own, all zeros if the two are equal."""
    difference = first.values - second.values  # (query, key)
    limit = float(np.abs(difference).max())
    if limit < EQUAL:
        difference, limit = np.zeros_like(difference), 0.0
    label, ticks = ("difference", (-limit, 0.0, limit)) if limit else ("", ())
    # Orange and purple differ for each common colour blindness, and each number carries its sign.
    scale = Scale(-limit or -1.0, limit or 1.0, "PuOr", _signed, label, ticks, _precise)
    return replace(first, values=difference, title=f"{first.title} - {second.title}", scale=scale)


def _caption(first: Pattern, second: Pattern, difference: np.ndarray) -> str:
    names = f"{first.title} and {second.title}"
    if not difference.any():
        return sentence(f"{names} are equal: no weight differs by a millionth.")
    # The first of nearly equal ones: both keys of a two-key row differ by the same, and rounding must not choose.
    size = np.abs(difference)
    at = query, key = np.unravel_index((size > size.max() - EQUAL).argmax(), size.shape)
    return sentence(
        f'{names} differ most where "{first.queries[query]}" looks at "{first.keys[key]}": {first.values[at]:.2f} and '
        f"{second.values[at]:.2f}, a difference of {_precise(difference[at].item())}."
    )


def _rows(difference: Pattern) -> list[str]:
    rows = []
    for query, row in zip(difference.queries, difference.values.tolist(), strict=True):
        texts = zip(difference.keys, map(_signed, row), strict=True)
        if text := ", ".join(f"{key} {number}" for key, number in texts if number != "0"):
            rows.append(f"{query}: {text}")
    return rows


def _signed(number: float) -> str:
    """Write a difference with its sign and two decimals, or 0 if it rounds to zero."""
    return "0" if abs(number) < 0.005 else f"{number:+.2f}"


def _precise(number: float) -> str:
    """Write a difference precisely, with 0 only for 0: +0.12, -0.0004."""
    return f"{number:+.1g}" if number and _signed(number) == "0" else _signed(number)
