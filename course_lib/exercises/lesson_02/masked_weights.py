"""Attention weights under a mask."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def masked_weights(scores, keep):  # (query, key), (query, key) bool -> (query, key)
    scores = scores.masked_fill(~keep, -torch.inf)
    return scores.softmax(dim=-1)


def _filled(scores: Tensor, keep: Tensor, number: float) -> Tensor:
    return scores.masked_fill(~keep, number).softmax(-1)


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for queries, keys in rng.size_rows(3, 2, 4, 9):
        keep = rng.normal(queries, keys) > 0
        keep[:, 0], keep[0, 1] = True, False  # each query may attend to something, and one may not attend to all
        cases.append(Case((rng.normal(queries, keys, std=2.0), keep)))
    return cases


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
    draw=_draw,
    arguments={"scores": "query key", "keep": "query key"},
    axes="query key",
    gradients=("scores",),
    wrong=(
        Wrong(
            "softmax without the mask",
            lambda s, k: s.softmax(-1),
            "mask-discarded",
            hint="Where does your code use `keep`? `masked_fill` gives back a new tensor: what becomes of it?",
        ),
        Wrong(
            "softmax with the mask inverted: what may be seen is hidden",
            lambda s, k: _filled(s, ~k, -torch.inf),
            "mask-inverted",
        ),
        Wrong("softmax of scores that are masked with 0", lambda s, k: _filled(s, k, 0.0), "mask-with-zero"),
        Wrong(
            "softmax masked afterwards: the rows no longer sum to 1",
            lambda s, k: s.softmax(-1).masked_fill(~k, 0.0),
            "mask-after-softmax",
        ),
        Wrong(
            "softmax over the queries, with the mask",
            lambda s, k: s.masked_fill(~k, -torch.inf).softmax(0),
            "softmax-wrong-axis",
        ),
        Wrong("the masked scores, before softmax", lambda s, k: s.masked_fill(~k, -torch.inf), "no-softmax"),
    ),
)
