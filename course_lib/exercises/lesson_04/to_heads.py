"""Split the width into heads."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def to_heads(x, num_heads):
    # (batch, token, num_heads * head_dim) -> (batch, head, token, head_dim)
    batch, num_tokens, width = x.shape
    split = x.view(batch, num_tokens, num_heads, width // num_heads)
    return split.transpose(1, 2)


def _draw(rng: InputGenerator) -> list[Case]:
    return [Case((rng.normal(b, t, h * d), h)) for b, t, h, d in rng.size_rows(3, 4, 2, 8)]


EXERCISE = FunctionExercise(
    to_heads,
    title="Split the width into heads",
    difficulty=2,
    minutes=4,
    prompt="Split the last axis into heads and bring the heads in front of the tokens.",
    hints=(
        "Two moves: a `view` to (batch, token, head, head_dim), then a `transpose`.",
        "`transpose(1, 2)` exchanges the axes of tokens and heads.",
    ),
    draw=_draw,
    least={"num_heads": 1},
    draw_edges=lambda rng: [Case((rng.normal(2, 3, 4), 4))],
    arguments={"x": "batch token width"},
    axes="batch head token head_dim",
    fixed="width",
    gradients=("x",),
    wrong=(
        Wrong(
            "a view straight to the shape: the heads hold whole tokens",
            lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
            "split-without-transpose",
        ),
        Wrong(
            "the split width without the exchange: (batch, token, head, head_dim)",
            lambda x, h: x.unflatten(2, (h, -1)),
            hint="Which two axes are still to be exchanged?",
        ),
        Wrong(
            "heads of every h-th element; a head's elements lie side by side",
            lambda x, h: x.unflatten(2, (-1, h)).permute(0, 3, 1, 2),
            hint="In the view, does the axis of heads come before that of head_dim?",
        ),
        Wrong(
            "the heads with their last two axes exchanged: (batch, head, head_dim, token)",
            lambda x, h: x.unflatten(2, (h, -1)).permute(0, 2, 3, 1),
            hint="Which two axes does `transpose(1, 2)` exchange?",
        ),
    ),
)
