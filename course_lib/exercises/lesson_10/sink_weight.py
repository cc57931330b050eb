"""How much weight ends on the first token."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

from .previous_token_score import causal_weights


def sink_weight(weights):  # (batch, head, query, key) -> (head)
    return weights[:, :, 1:, 0].mean(dim=(0, 2))


def _draw(rng: InputGenerator) -> list[Case]:
    return [Case((causal_weights(rng, *sizes),)) for sizes in rng.size_rows(3, 3, 3, 9)]


EXERCISE = FunctionExercise(
    sink_weight,
    title="Find an attention sink",
    difficulty=1,
    minutes=4,
    prompt=(
        "How much of its weight does each head put on the first token? Give back the mean over all samples and over "
        "all queries but the first, which can see nothing but itself and always gives 1. A high score is a bright "
        "column, which need not be a sink: a sink adds nearly nothing to the output, as its value is close to 0, but "
        "a head may also look at the first token because it copies what it finds there, as in the lesson."
    ),
    hints=(
        "The weights on the first token are one column of each head's table. Which one?",
        "`weights[:, :, 1:, 0]` is (batch, head, query - 1).",
        "Take its mean over the samples and the queries, `.mean(dim=(0, 2))`.",
    ),
    draw=_draw,
    arguments={"weights": "batch head query key"},
    axes="head",
    fixed="query key",
    wrong=(
        Wrong(
            "a mean that counts the first query, too: its weight on itself is always 1",
            lambda w: w[:, :, :, 0].mean((0, 2)),
            hint="What does query 0 see?",
        ),
        Wrong(
            "the weights *of* the first query: a row, where a column is meant",
            lambda w: w[:, :, 0, 1:].mean((0, 2)),
            hint="Is a column of a head's table one query or one key?",
        ),
        Wrong(
            "the weights *of* the first query, its own included: a row, where a column is meant",
            lambda w: w[:, :, 0].mean((0, 2)),
            hint="Is a column of a head's table one query or one key?",
        ),
        Wrong(
            "the mean weight on the token before",
            lambda w: w.diagonal(-1, 2, 3).mean((0, 2)),
            hint="Which key is asked about?",
        ),
        Wrong(
            "the mean weight on the last token",
            lambda w: w[:, :, 1:, -1].mean((0, 2)),
            hint="Which key is asked about?",
        ),
        Wrong(
            "the sum over the queries; the mean is asked for",
            lambda w: w[:, :, 1:, 0].sum(-1).mean(0),
            hint="How large may a mean of weights be?",
        ),
        Wrong(
            "the sum over samples and queries; the mean is asked for",
            lambda w: w[:, :, 1:, 0].sum((0, 2)),
            hint="How large may a mean of weights be?",
        ),
        Wrong(
            "a score of each head in each sample: the samples are still apart",
            lambda w: w[:, :, 1:, 0].mean(-1),
            hint="Over which axes is the mean taken?",
        ),
        Wrong(
            "a score of each head at each query: the queries are still apart",
            lambda w: w[:, :, 1:, 0].mean(0),
            hint="Over which axes is the mean taken?",
        ),
        Wrong(
            "one number for all heads together",
            lambda w: w[:, :, 1:, 0].mean(),
            hint="Which axis has to stay?",
        ),
    ),
)
