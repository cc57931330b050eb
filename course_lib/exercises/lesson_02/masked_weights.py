"""Attention weights under a mask."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise


def masked_weights(scores, keep):  # (query, key), (query, key) bool -> (query, key)
    scores = scores.masked_fill(~keep, -torch.inf)
    return scores.softmax(dim=-1)


def _visible(keep: Tensor) -> Tensor:
    """Return a mask in which each query may attend to something, and one may not attend to all."""
    keep = keep > 0
    keep[:, 0], keep[0, 1] = True, False
    return keep


EXERCISE = FunctionExercise(
    masked_weights,
    title="Attention weights under a mask",
    difficulty=1,
    minutes=3,
    prompt="Scores and a mask in, attention weights out: exactly 0 wherever `keep` is False.",
    hints=(
        "`scores.masked_fill(where, number)` returns a new tensor, with the number wherever `where` is True.",
        "`keep` is True where a token may attend, so fill where it is not: `~keep`, with `-torch.inf`. Then softmax.",
    ),
    inputs={"keep": _visible},
    arguments={"scores": "query key", "keep": "query key"},
    axes="query key",
    gradients=("scores",),
    wrong="""
scores.softmax(-1)
    softmax without the mask [mask-discarded]
    ? Where does your code use `keep`? `masked_fill` gives back a new tensor: what becomes of it?
scores.softmax(-1).masked_fill(~keep, 0.0)
    softmax masked afterwards: the rows no longer sum to 1 [mask-after-softmax]
""",
)
