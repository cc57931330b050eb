"""Drag the query: an arrow among six keys, and at once the scores, the attention weights and the context."""

from __future__ import annotations

from torch import Tensor

from course_lib.attention import attend
from course_lib.inputs import dream_big
from course_lib.pictures.tensors.plane import convex_hull
from course_lib.pictures.tensors.vectors import draw_vectors

from .figure import Figure
from .toy_head import toy_projections

WORDS = dream_big().words
FIRST = WORDS.index("work")  # the word whose query is shown first
DIVISORS = (1, 2, 4, 8, 16, 32, 64)  # scores are divided by the square root of one of them
TITLE = "Where does a query look, and why divide by √d?"
CAPTION = (
    'The query of "{word}" gives {weight:.0%} of its attention weight to "{largest}", which pulls the context its way; '
    "the context stays within the hull of the values."
)


def drag_the_query() -> Figure:
    """Return the figure in which a reader drags a query among keys, and the context follows within the values' hull.

    The head is that of lesson 01, with random weight matrices. A slider chooses the d by whose square root the scores
    are divided.

    Example:
        >>> drag_the_query().save("drag_the_query.html")
        PosixPath('drag_the_query.html')
    """
    queries, keys, values = toy_projections()
    query = queries[FIRST]
    context, weights = (table[0, 0, 0] for table in attend(_one_head(query), _one_head(keys), _one_head(values)))
    largest = int(weights.argmax())
    labels = [f"{word} {weight:.0%}" for word, weight in zip(WORDS, weights.tolist(), strict=True)]
    compared = draw_vectors(
        {"key": keys, "query": query}, words=WORDS, title=f'Compare: the query of "{WORDS[FIRST]}" among the keys'
    )
    weighted = draw_vectors(
        {"value": values, "context": context}, words=labels, points=True, title="Mix: the context among the values"
    )
    caption = CAPTION.format(word=WORDS[FIRST], weight=weights[largest].item(), largest=WORDS[largest])
    data = {
        "words": WORDS,
        "queries": queries.tolist(),
        "keys": keys.tolist(),
        "values": values.tolist(),
        "hull": convex_hull(values.tolist()),
        "divisors": DIVISORS,
        "first": FIRST,
    }
    return Figure(TITLE, ("plane.js", "drag_the_query.js"), data, compared.above(weighted, caption=caption))


def _one_head(table: Tensor) -> Tensor:
    """(width,) or (token, width) -> (batch, head, token, width)."""
    return table.view(1, 1, -1, table.shape[-1])
