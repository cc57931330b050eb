"""Turn: a query and a key with rotary positions, whose score depends on the distance between them alone."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.attention import apply_rotary, rotary_table
from course_lib.pictures.picture import Picture
from course_lib.pictures.tensors.rotary import draw_rotary
from course_lib.wording import counted, listed

from .figure import Figure
from .share_keys_and_values import PUBLISHED

TITLE = "Why does only the distance count?"
QUERY = (0.9, 0.5, 0.7, 0.3, -0.4, 0.6, 0.5, 0.8)  # of one head; numbers i and i + 4 are a pair
KEY = (0.6, 0.8, 0.9, 0.6, 0.6, 0.3, 0.4, 0.6)
BASES = {"100": 100.0, "10,000, as in Llama 2": 10000.0, "500,000, as in Llama 3": 500000.0}
LENGTHS = 16, 512, 4096  # of texts, in tokens
AT = 5, 2  # positions of query and key at first
DRAWN = 8  # positions of the picture
REAL = next(model for model in PUBLISHED if model.name == "Llama 3 8B")  # for its number of pairs


def turn() -> Figure:
    """Return the figure in which a reader moves a query and a key, and their pairs of numbers turn like dials.

    The score stays where both move by the same amount. The base of the angles and the length of the text are to choose.

    Example:
        >>> turn().save("turn.html")
        PosixPath('turn.html')
    """
    real = {"name": REAL.name, "pairs": REAL.head_dim // 2}
    data = {"query": QUERY, "key": KEY, "bases": BASES, "lengths": LENGTHS, "at": AT, "real": real}
    return Figure(TITLE, ("turn.js",), data, _picture())


def _picture() -> Picture:
    """Draw the query at the first positions, and say what stays."""
    base = next(iter(BASES.values()))
    queries, keys = (_at_positions(vector, base) for vector in (QUERY, KEY))
    labels = [f"at {position}" for position in range(DRAWN)]
    unturned = torch.tensor(QUERY).expand(DRAWN, -1)
    drawn = draw_rotary(unturned, queries, words=labels, title=f"A query at {DRAWN} positions")
    query, key = AT
    scores = [float(queries[query + by] @ keys[key + by]) for by in (0, 1, 2)]
    moved = listed([f"{score:.2f} at {query + by} and {key + by}" for by, score in enumerate(scores)])
    apart = counted(query - key, "token")
    return Picture(
        svg=drawn.svg,
        portrait=drawn.portrait,
        description=f"{drawn.description}\nScores of the query with a key that is turned in the same way: {moved}.",
        caption=f"{drawn.caption} With a key {apart} before it the score is {scores[0]:.2f} anywhere. "
        f"A head of {REAL.name} has {REAL.head_dim // 2} such pairs.",
    )


def _at_positions(vector: tuple[float, ...], base: float) -> Tensor:
    """Turn a vector as it stands at each position, (position, head_dim)."""
    cos, sin = rotary_table(DRAWN, len(vector), rope_theta=base)
    return apply_rotary(torch.tensor(vector).expand(1, 1, DRAWN, -1), cos, sin)[0, 0]
