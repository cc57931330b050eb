"""Scores of all heads at once."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def scores_by_head(queries, keys):
    # (batch, head, query, head_dim), (batch, head, key, head_dim) -> (b, h, q, k)
    head_dim = queries.shape[-1]
    # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
    return (queries * head_dim**-0.5) @ keys.transpose(2, 3)


def _scores(queries: Tensor, keys: Tensor, width: int | None = None) -> Tensor:
    return torch.einsum("bhqd,bhkd->bhqk", queries, keys) * (width or queries.shape[-1]) ** -0.5


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for batch, heads, queries, keys, width in (*rng.size_rows(3, 5), (2, 1, 3, 4, 5), (1, 3, 1, 6, 2), (3, 2, 4, 5, 1)):
        cases.append(Case((rng.normal(batch, heads, queries, width), rng.normal(batch, heads, keys, width))))
    return cases


EXERCISE = FunctionExercise(
    scores_by_head,
    title="Scores of all heads at once",
    difficulty=2,
    minutes=4,
    prompt=(
        "Every query of a head meets every key of the same head. Scaled, as in the lesson. There may be more keys than "
        "queries."
    ),
    hints=(
        "`@` multiplies the last two axes and leaves batch and head alone.",
        "Turn the keys in their last two axes: `keys.transpose(2, 3)`.",
        "Scale by the width of one head, the last size of the queries.",
    ),
    draw=_draw,
    arguments={"queries": "batch head query head_dim", "keys": "batch head key head_dim"},
    axes="batch head query key",
    gradients=("queries", "keys"),
    wrong=(
        Wrong("scores without the division", lambda q, k: _scores(q, k, 1), "missing-scale"),
        Wrong(
            "scores divided by the root of the width over all heads",
            lambda q, k: _scores(q, k, q.shape[1] * q.shape[3]),
            "wrong-scale",
        ),
        Wrong(
            "scores divided by head_dim, without the root", lambda q, k: _scores(q, k, q.shape[3] ** 2), "wrong-scale"
        ),
        Wrong(
            "scores divided by the root of the number of queries", lambda q, k: _scores(q, k, q.shape[2]), "wrong-scale"
        ),
        Wrong(
            "scores in which queries and keys are exchanged: (batch, head, key, query)",
            lambda q, k: _scores(q, k).transpose(2, 3),
            hint="Which of the two stands on the left of the product?",
        ),
        Wrong(
            "the scores of keys cut anew by `view`, which moves no element",
            lambda q, k: q @ k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) * q.shape[3] ** -0.5,
            hint="`view` keeps the order of the elements in memory. Which row of the keys becomes a column?",
        ),
        Wrong(
            "the sum of all heads' scores",
            lambda q, k: _scores(q, k).sum(1, keepdim=True).expand(-1, q.shape[1], -1, -1),
            "heads-share-scores",
        ),
        Wrong(
            "the scores of all heads added up, without an axis of heads",
            lambda q, k: _scores(q, k).sum(1),
            "heads-share-scores",
        ),
        Wrong(
            "the scores of head 0 for every head",
            lambda q, k: _scores(q[:, :1], k[:, :1]).expand(-1, q.shape[1], -1, -1),
            "heads-share-scores",
        ),
        Wrong(
            "the products of heads with heads, token by token: (batch, token, head, head)",
            lambda q, k: q.transpose(1, 2) @ k.transpose(1, 2).transpose(2, 3) * q.shape[-1] ** -0.5,
            hint="Which two axes does `@` multiply? Who meets whom?",
        ),
    ),
)
