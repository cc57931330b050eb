"""Drag the query: an arrow among keys, and at once the scores, the attention weights and the context."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import attend
from course_lib.inputs import dream_big
from course_lib.pictures.checks import first_sample, token_labels
from course_lib.pictures.tensors.plane import convex_hull
from course_lib.pictures.tensors.vectors import AXES, MOST_VECTORS, draw_vectors

from .figure import Figure
from .toy_head import toy_projections

FIRST = dream_big().words.index("work")  # the word of the toy head whose query is shown first
DIVISORS = (1, 2, 4, 8, 16, 32, 64)  # scores are divided by the square root of one of them
RANDOM, PAIRS, KEYS = (2, 8, 64, 256), 2000, 6  # widths of random vectors, and how many queries with how many keys
DIGITS = 5  # of what is drawn: machines differ in the sixth of what they compute in float32
ALONG = "the sideways part", "the part along the query"  # axes of the plane of a query that is wider than 2
PRINCIPAL = "the first principal component", "the second"
TITLE = "Where does a query look, and why divide by √d?"
CAPTION = (
    'The query of "{word}" gives {weight:.0%} of its attention weight to "{largest}", which pulls the context its way; '
    "the context stays within the hull of the values."
)


def drag_the_query(
    queries: Tensor | None = None,
    keys: Tensor | None = None,
    values: Tensor | None = None,
    *,
    words: Sequence[object] | None = None,
    causal: bool = False,
    first: int | None = None,
) -> Figure:
    """Return the figure in which a reader drags a query among keys, and the context follows within the values' hull.

    A slider chooses the d by whose square root the scores are divided, and below it random vectors of 2 to 256 numbers
    show why. Vectors of width 2 are drawn as they are. Wider
    ones are drawn in a plane for each word, spanned by its query and the direction across it in which its keys differ
    most, so that the score of the query, and of any other in that plane, is exact. Values are drawn in the plane in
    which they differ most; the context is their weighted sum there, too.

    Args:
        queries, keys: (token, head_dim), of one head, with a batch of one before or not; those of lesson 01 if None,
            with random weight matrices.
        values: (token, value width), the width at least 2.
        words: a label for each token; "token 0", "token 1", ... if None.
        causal: whether later tokens are hidden from a query.
        first: the token whose query is shown first; the last one if None, and of lesson 01's that of "work".

    Raises:
        ValueError: If a shape is a different one, there are more than 13 tokens, an element isn't finite, or words or
            first do not fit.
        TypeError: If queries, keys or values is no tensor of real numbers.

    Example:
        >>> drag_the_query().save("drag_the_query.html")
        PosixPath('drag_the_query.html')
    """
    if queries is None and keys is None and values is None:
        queries, keys, values = toy_projections()
        words = dream_big().words if words is None else words
        first = FIRST if first is None else first
    queries, keys, values = _checked(queries=queries, keys=keys, values=values)
    count, width = keys.shape
    words = token_labels(words, count)
    first = count - 1 if first is None else first
    if not isinstance(first, int) or not -count <= first < count:
        raise ValueError(f"first is {first!r}: give the number of one of the {count} tokens.")
    first %= count

    flat = values.shape[1] == 2
    drawn = (values if flat else values @ _principal_axes(values - values.mean(0))).round(decimals=DIGITS)
    planes = [_plane(queries[i], keys[: i + 1] if causal else keys) for i in range(count)]
    _, weights = attend(queries[None, None], keys[None, None], values[None, None], causal=causal)
    row = weights[0, 0, first]
    largest = int(row.argmax())
    query, seen = planes[first]
    compared = draw_vectors(
        {"key": seen, "query": query},
        words=words[: len(seen)],
        title=f'Compare: the query of "{words[first]}" among the keys',
        axes=AXES if width == 2 else ALONG,
    )
    weighted = draw_vectors(
        {"value": drawn, "context": row @ drawn},
        words=[f"{word} {weight:.0%}" for word, weight in zip(words, row.tolist(), strict=True)],
        points=True,
        title="Mix: the context among the values",
        axes=AXES if flat else PRINCIPAL,
    )
    caption = CAPTION.format(word=words[first], weight=row[largest].item(), largest=words[largest])
    data: dict[str, Any] = {
        "words": words,
        "planes": [{"query": query.tolist(), "keys": keys.tolist()} for query, keys in planes],
        "values": drawn.tolist(),
        "hull": convex_hull(drawn.tolist()),
        "divisors": sorted({*DIVISORS, width}),
        "width": width,
        "first": first,
        "random": [_random(size) for size in RANDOM],
    }
    return Figure(TITLE, ("plane.js", "drag_the_query.js"), data, compared.above(weighted, caption=caption))


@cache
def _random(width: int) -> dict[str, Any]:
    """Return what scores of random queries and keys come to, undivided and divided by the root of the width.

    Of the scores the spread, of the weights from the largest to the smallest the mean, and of the slopes w * (1 - w) by
    which a gradient passes softmax the mean of their sum.
    """
    draw = torch.Generator().manual_seed(width)
    queries, keys = (torch.randn(PAIRS, 1, n, width, generator=draw, dtype=torch.float64) for n in (1, KEYS))
    found = [attend(queries * factor, keys, keys)[1][:, 0, 0] for factor in (width**0.5, 1.0)]  # `attend` divides, too
    spread = (queries @ keys.mT).std().item()
    return {
        "d": width,
        "pairs": PAIRS,
        "spread": [round(spread, 3), round(spread / width**0.5, 3)],
        "weights": [weights.sort(descending=True).values.mean(0).round(decimals=DIGITS).tolist() for weights in found],
        "slopes": [float(f"{(weights * (1 - weights)).sum(-1).mean():.3g}") for weights in found],
    }


def _checked(**tables: Tensor | None) -> list[Tensor]:
    """Return queries, keys and values in float64; raise a TypeError or ValueError that names the one that is wrong."""
    found = {name: first_sample(table, name, "token width") for name, table in tables.items()}
    count, width = found["queries"].shape
    wanted = {"keys": (count, width), "values": (count, max(2, found["values"].shape[1]))}
    for name, shape in wanted.items():
        if found[name].shape != shape:
            got = tuple(found[name].shape)
            raise ValueError(f"{name} must be {shape} beside queries of {(count, width)}, got {got}: give one head's.")
    if count >= MOST_VECTORS:
        raise ValueError(f"queries has {count} tokens: give {MOST_VECTORS - 1} at most, as more labels don't fit.")
    for name, table in found.items():
        if not table.isfinite().all():
            raise ValueError(f"{name} holds nan or inf, which has no place in the plane: give finite numbers.")
    return list(found.values())


def _plane(query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """(width,), (key, width) -> (2,), (key, 2), with the same products of query and keys."""
    axes = torch.eye(2, dtype=query.dtype) if len(query) == 2 else _axes(query, keys)
    return (query @ axes).round(decimals=DIGITS), (keys @ axes).round(decimals=DIGITS)


def _axes(query: Tensor, keys: Tensor) -> Tensor:
    """Return the direction across a query in which keys differ most, and that of the query, (width, 2)."""
    along = F.normalize(query, dim=0)
    across = _principal_axes(keys - torch.outer(keys @ along, along))[:, 0]
    across = F.normalize(across - (across @ along) * along, dim=0)  # nothing may be left of it where keys don't differ
    return torch.stack([across, along], dim=1)


def _principal_axes(table: Tensor) -> Tensor:
    """Return the two directions in which vectors are longest, (width, 2); the largest number of each is positive."""
    axes = torch.linalg.svd(table).Vh[:2].T
    return axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
