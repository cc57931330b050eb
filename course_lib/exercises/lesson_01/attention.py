"""Attention as one function of queries, keys and values."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

from .scaled_scores import scaled_scores
from .softmax_rows import softmax_rows


def attention(queries, keys, values):
    # (query, head_dim), (key, head_dim), (key, width) -> (query, width)
    weights = softmax_rows(scaled_scores(queries, keys))
    return weights @ values  # (query, key) @ (key, width) -> (query, width)


def _later(queries: Tensor, keys: Tensor) -> Tensor:
    return torch.ones(len(queries), len(keys), dtype=torch.bool).triu(1)


def _draw(rng: InputGenerator) -> list[Case]:
    tokens, width = rng.sizes(2, 3, 9)
    cases = [Case(tuple(rng.normal(tokens, width, std=1.5) for _ in range(3)))]  # in which roles can be exchanged
    for queries, keys, head_dim, width in (*rng.size_rows(3, 4, 2, 12), (1, 1, 3, 2), (1, 4, 1, 3)):
        shapes = (queries, head_dim), (keys, head_dim), (keys, width)
        cases.append(Case(tuple(rng.normal(*shape, std=1.5) for shape in shapes)))
    return cases


EXERCISE = FunctionExercise(
    attention,
    title="Compare, weigh, mix",
    difficulty=2,
    minutes=5,
    prompt="All three steps in one function, for one head without a mask.",
    hints=(
        "Three steps, three tensors: queries meet keys, softmax makes weights, weights mix values.",
        "You wrote the first two steps above: call your own functions.",
        "The mix is `weights @ values`: (query, key) @ (key, width) -> (query, width).",
    ),
    draw=_draw,
    arguments={"queries": "query head_dim", "keys": "key head_dim", "values": "key width"},
    axes="query width",
    gradients=("queries", "keys", "values"),
    wrong=(
        Wrong(
            "attention scored with the values",
            lambda q, k, v: attention(q, v, v),
            "scores-from-values",
            "Which line reads `keys`?",
        ),
        Wrong(
            "attention whose weights are multiplied by the keys, not the values",
            lambda q, k, v: attention(q, k, k),
            "projection-reused",
            "Which of the three arguments does the last product use?",
        ),
        Wrong(
            "attention scored with the queries alone",
            lambda q, k, v: attention(q, q, v),
            "projection-reused",
            "Which two of the three arguments make the scores?",
        ),
        Wrong("attention without the division", lambda q, k, v: (q @ k.T).softmax(-1) @ v, "missing-scale"),
        Wrong(
            "attention with scores divided by the width, not by its square root",
            lambda q, k, v: (q @ k.T / q.shape[1]).softmax(-1) @ v,
            "wrong-scale",
        ),
        Wrong(
            "attention with softmax over the queries",
            lambda q, k, v: scaled_scores(q, k).softmax(0) @ v,
            "softmax-wrong-axis",
        ),
        Wrong("attention without softmax", lambda q, k, v: scaled_scores(q, k) @ v, "no-softmax"),
        Wrong("attention without softmax and without the division", lambda q, k, v: q @ k.T @ v, "no-softmax"),
        Wrong(
            "attention with softmax taken twice",
            lambda q, k, v: scaled_scores(q, k).softmax(-1).softmax(-1) @ v,
            "double-softmax",
        ),
        Wrong(
            "attention under a causal mask; this task hides no key",
            lambda q, k, v: scaled_scores(q, k).masked_fill(_later(q, k), -torch.inf).softmax(-1) @ v,
            hint="Which keys may a query see here?",
        ),
        Wrong(
            "attention with scores divided by the root of the values' width",
            lambda q, k, v: (q @ k.T / v.shape[1] ** 0.5).softmax(-1) @ v,
            "wrong-scale",
        ),
        Wrong(
            "attention with scores divided by the root of the number of keys",
            lambda q, k, v: (q @ k.T / len(k) ** 0.5).softmax(-1) @ v,
            "wrong-scale",
        ),
        Wrong(
            "exp of the scores times the values, not divided by its sum", lambda q, k, v: scaled_scores(q, k).exp() @ v
        ),
        Wrong(
            "attention whose table of weights was transposed before it met the values",
            lambda q, k, v: scaled_scores(q, k).softmax(-1).T @ v,
            "weights-transposed",
        ),
        Wrong("the values themselves", lambda q, k, v: v, "weights-not-applied"),
        Wrong(
            "the weights, before they are multiplied by the values",
            lambda q, k, v: scaled_scores(q, k).softmax(-1),
            "weights-not-applied",
        ),
        Wrong(
            "attention divided after softmax",
            lambda q, k, v: (q @ k.T).softmax(-1) / q.shape[1] ** 0.5 @ v,
            "wrong-scale",
        ),
    ),
)
