"""Exercises to lesson 01: one head, from one token's scores to a module."""

from __future__ import annotations

from course_lib.attention import SingleHeadAttention

from .exercise import Exercise
from .judges.single_head import ATTENTION, SCALED_SCORES, SCORES_OF_TOKEN, SOFTMAX_ROWS
from .modules import ModuleJudge

LESSON_01 = (
    Exercise(
        "scores_of_token",
        "01",
        "One token's scores by hand",
        1,
        3,
        SCORES_OF_TOKEN,
        (
            "A score says how well one query fits one key: the sum of their products, number by number.",
            "Go through the keys one at a time and collect `query @ key`; or multiply once.",
            "`keys @ query` does it: (key, head_dim) @ (head_dim) -> (key).",
        ),
    ),
    Exercise(
        "scaled_scores",
        "01",
        "All scores at once, scaled",
        1,
        4,
        SCALED_SCORES,
        (
            "Row q of the table holds the scores of query q.",
            "A product takes rows of the left and columns of the right: the keys have to be turned.",
            "`head_dim` is the last size of the queries, and the scores are divided by `head_dim**0.5`.",
        ),
    ),
    Exercise(
        "softmax_rows",
        "01",
        "Softmax in your own words",
        2,
        6,
        SOFTMAX_ROWS,
        (
            "Two steps: make every score positive, then divide each row by its sum.",
            "`exp` makes them positive. `keepdim=True` keeps the sums as a column, so that they divide row by row.",
            "`exp(2000)` is infinite. Subtract each row's largest score first: the weights stay the same.",
        ),
    ),
    Exercise(
        "attention",
        "01",
        "Compare, weigh, mix",
        2,
        5,
        ATTENTION,
        (
            "Three steps, three tensors: queries meet keys, softmax makes weights, weights mix values.",
            "You wrote the first two steps above: call your own functions.",
            "The mix is `weights @ values`: (query, key) @ (key, width) -> (query, width).",
        ),
    ),
    Exercise(
        "SingleHead",
        "01",
        "A head as a module",
        3,
        8,
        ModuleJudge(
            lambda d_in, d_out: SingleHeadAttention(d_in, d_out, causal=False), (7, 6), causal=False, num_heads=1
        ),
        (
            "Three `nn.Linear` in `__init__`, your three steps in `forward`.",
            "With a batch axis the keys are turned in their last two axes only: `keys.transpose(1, 2)`.",
            "Scale by the width of the queries, `queries.shape[-1] ** -0.5`, which is d_out, not d_in.",
        ),
    ),
)
