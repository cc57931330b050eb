"""All heads ask one set of keys."""

from __future__ import annotations

from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def multi_query(queries, keys, values):
    # (batch, head, query, head_dim), 2 x (batch, key, head_dim) -> (b, h, q, d)
    scaled = queries * queries.shape[-1] ** -0.5
    # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
    weights = (scaled @ keys[:, None].transpose(2, 3)).softmax(dim=-1)
    return weights @ values[:, None]  # (b, h, q, k) @ (b, 1, k, d) -> (b, h, q, d)


def _weights(queries: Tensor, keys: Tensor, width: int | None = None) -> Tensor:
    scores = queries @ keys[:, None].transpose(2, 3) * (width or queries.shape[-1]) ** -0.5
    return scores.softmax(-1)


def _multi_query(queries: Tensor, keys: Tensor, values: Tensor, width: int | None = None) -> Tensor:
    return _weights(queries, keys, width) @ values[:, None]


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for batch, heads, queries, keys, width in (
        *rng.size_rows(3, 5, 2, 8),
        (2, 1, 3, 4, 5),
        (1, 3, 1, 6, 2),
        (3, 2, 4, 5, 1),
    ):
        shared = (rng.normal(batch, keys, width, std=1.5) for _ in range(2))
        cases.append(Case((rng.normal(batch, heads, queries, width, std=1.5), *shared)))
    return cases


EXERCISE = FunctionExercise(
    multi_query,
    title="All heads ask one set of keys",
    difficulty=2,
    minutes=4,
    prompt=(
        "Queries have heads, keys and values have none: all heads ask the same ones. Scaled, without a mask. There "
        "may be more keys than queries, or fewer."
    ),
    hints=(
        "Keys and values come without an axis of heads. Give them one of size 1: `keys[:, None]`.",
        "A product broadcasts an axis of size 1: (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k).",
        "Multiply the scores by head_dim ** -0.5, take softmax over the keys, then `weights @ values[:, None]`.",
    ),
    draw=_draw,
    arguments={
        "queries": "batch head query head_dim",
        "keys": "batch key head_dim",
        "values": "batch key head_dim",
    },
    axes="batch head query head_dim",
    gradients=("queries", "keys", "values"),
    wrong=(
        Wrong("multi-query attention without the division", lambda q, k, v: _multi_query(q, k, v, 1), "missing-scale"),
        Wrong(
            "multi-query attention scaled by the width over all heads",
            lambda q, k, v: _multi_query(q, k, v, q.shape[1] * q.shape[3]),
            "wrong-scale",
        ),
        Wrong(
            "multi-query attention whose scores are divided by head_dim, not by its square root",
            lambda q, k, v: _multi_query(q, k, v, q.shape[3] ** 2),
            "wrong-scale",
        ),
        Wrong(
            "multi-query attention scored with the values",
            lambda q, k, v: _multi_query(q, v, v),
            "scores-from-values",
            "Which line reads `keys`?",
        ),
        Wrong(
            "multi-query attention whose weights are multiplied by the keys, not the values",
            lambda q, k, v: _multi_query(q, k, k),
            "projection-reused",
        ),
        Wrong(
            "the mean of all query heads, asked once: the queries must stay apart",
            lambda q, k, v: _multi_query(q.mean(1, keepdim=True), k, v).expand_as(q),
            "heads-averaged",
            "How many patterns of weights should there be, one for all heads or one per head?",
        ),
        Wrong(
            "one head's result for all: keys and values are shared, queries are not",
            lambda q, k, v: _multi_query(q[:, :1], k, v).expand_as(q),
            "heads-share-scores",
        ),
        Wrong(
            "the mean over the heads of the result",
            lambda q, k, v: _multi_query(q, k, v).mean(1),
            "heads-averaged",
            "Which axes should the result have?",
        ),
        Wrong(
            "multi-query attention under a causal mask; this task hides no token",
            lambda q, k, v: (_weights(q, k).tril() / _weights(q, k).tril().sum(-1, keepdim=True)) @ v[:, None],
            hint="Which tokens may a token see here?",
        ),
        Wrong(
            "softmax over the queries",
            lambda q, k, v: (q @ k[:, None].transpose(2, 3) * q.shape[-1] ** -0.5).softmax(-2) @ v[:, None],
            "softmax-wrong-axis",
        ),
        Wrong(
            "softmax over the heads",
            lambda q, k, v: (q @ k[:, None].transpose(2, 3) * q.shape[-1] ** -0.5).softmax(1) @ v[:, None],
            "softmax-wrong-axis",
        ),
        Wrong(
            "multi-query attention, already merged to (batch, token, head * head_dim): right, but one step too far",
            lambda q, k, v: _multi_query(q, k, v).transpose(1, 2).flatten(2),
        ),
        Wrong(
            "the weights, before they are multiplied by the values",
            lambda q, k, v: _weights(q, k),
            "weights-not-applied",
        ),
        Wrong(
            "multi-query attention with softmax taken twice",
            lambda q, k, v: _weights(q, k).softmax(-1) @ v[:, None],
            "double-softmax",
        ),
        Wrong(
            "multi-query attention scaled by the number of keys",
            lambda q, k, v: _multi_query(q, k, v, k.shape[1]),
            "wrong-scale",
        ),
        Wrong(
            "multi-query attention with the mean of all heads' weights in every head",
            lambda q, k, v: (_weights(q, k).mean(1, keepdim=True) @ v[:, None]).expand_as(q),
            "heads-share-scores",
        ),
        Wrong(
            "multi-query attention without softmax",
            lambda q, k, v: q @ k[:, None].mT * q.shape[-1] ** -0.5 @ v[:, None],
            "no-softmax",
        ),
    ),
)
