"""Predict the strides."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def strides_by_head(num_tokens, num_heads, head_dim):
    # three ints -> four ints: batch, head, token, head_dim
    width = num_heads * head_dim
    return (num_tokens * width, head_dim, width, 1)


def _contiguous(*shape: int) -> tuple[int, ...]:
    return torch.empty(shape, device="meta").stride()


def _draw(rng: InputGenerator) -> list[Case]:
    return [Case(sizes) for sizes in rng.size_rows(4, 3, 2, 12)]


EXERCISE = FunctionExercise(
    strides_by_head,
    title="Predict the strides",
    difficulty=3,
    minutes=5,
    prompt=(
        "Queries of one sample, (1, token, width), lie in memory row by row. What are the strides of "
        "`queries.view(1, num_tokens, num_heads, head_dim).transpose(1, 2)`? Count them, without making the "
        "tensor."
    ),
    hints=(
        "Begin with the strides of (batch, token, width): a step in the width is 1, a token is the width.",
        "The view splits the width: a head is head_dim numbers on. A token still is num_heads * head_dim on.",
        "`transpose(1, 2)` exchanges shapes and strides of axes 1 and 2 and nothing else.",
    ),
    draw=_draw,
    least={"num_tokens": 1, "num_heads": 1, "head_dim": 1},
    wrong=(
        Wrong(
            "the strides before the transpose: (batch, token, head, head_dim)",
            lambda t, h, d: (t * h * d, h * d, d, 1),
            hint="What does `transpose(1, 2)` do to the strides?",
        ),
        Wrong(
            "the strides of a fresh tensor of that shape, as if the elements had moved",
            lambda t, h, d: _contiguous(1, h, t, d),
            hint="Does `transpose` move a single element?",
        ),
        Wrong(
            "the strides with the last two axes exchanged",
            lambda t, h, d: (t * h * d, d, 1, h * d),
            hint="Which two axes does `transpose(1, 2)` exchange?",
        ),
        Wrong("the shape; the strides say how many slots a step skips", lambda t, h, d: (1, h, t, d)),
        Wrong(
            "the strides in bytes; PyTorch counts them in elements",
            lambda t, h, d: (8 * t * h * d, 8 * d, 8 * h * d, 8),
        ),
        Wrong("the strides in bytes of float32 elements", lambda t, h, d: (4 * t * h * d, 4 * d, 4 * h * d, 4)),
        Wrong(
            "strides whose head skips a whole token: a token's heads lie side by side",
            lambda t, h, d: (t * h * d, h * d, h * d, 1),
            hint="How far is head 1 of a token from head 0 of the same token?",
        ),
        Wrong(
            "strides whose token skips one head only",
            lambda t, h, d: (t * h * d, d, d, 1),
            hint="How far is head 0 of the next token?",
        ),
        Wrong("the strides without the batch", lambda t, h, d: (d, h * d, 1)),
        Wrong(
            "strides whose head skips num_heads slots; a head is head_dim wide",
            lambda t, h, d: (t * h * d, h, h * d, 1),
            hint="How far is head 1 of a token from head 0 of the same token?",
        ),
    ),
)
