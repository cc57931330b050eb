"""The context of one token."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def context_of_token(weights, values):  # (key), (key, width) -> (width)
    context = torch.zeros_like(values[0])
    for key in range(len(weights)):
        context = context + weights[key] * values[key]
    return context


def _draw(rng: InputGenerator) -> list[Case]:
    return [Case((rng.normal(keys).softmax(0), rng.normal(keys, width))) for keys, width in rng.size_rows(3, 2, 3, 9)]


EXERCISE = FunctionExercise(
    context_of_token,
    title="The context of one token",
    difficulty=1,
    minutes=3,
    prompt="Mix the values of all tokens: each is multiplied by its attention weight, and the results are added up.",
    hints=(
        "Go through the keys and add up `weights[key] * values[key]`.",
        "`weights @ values` does it at once: (key) @ (key, width) -> (width).",
    ),
    draw=_draw,
    arguments={"weights": "key", "values": "key width"},
    axes="width",
    wrong=(
        Wrong(
            "the plain mean of the values, whatever the weights are",
            lambda w, v: v.mean(0),
            "weights-not-applied",
        ),
        Wrong("the sum of the values, whatever the weights are", lambda w, v: v.sum(0), "weights-not-applied"),
        Wrong(
            "the value with the largest weight alone",
            lambda w, v: v[w.argmax()],
            hint="What becomes of the other values?",
        ),
        Wrong(
            "what the first key alone adds",
            lambda w, v: w[0] * v[0],
            hint="After which round does your loop end: does `return` stand inside it?",
        ),
        Wrong(
            "what the last key alone adds",
            lambda w, v: w[-1] * v[-1],
            hint="Does each round of your loop add to the context, or replace it?",
        ),
        Wrong(
            "the context without the last key", lambda w, v: w[:-1] @ v[:-1], hint="At which key does your loop end?"
        ),
        Wrong(
            "the context without the first key", lambda w, v: w[1:] @ v[1:], hint="At which key does your loop begin?"
        ),
        Wrong(
            "the weighted values before they are added up",
            lambda w, v: w[:, None] * v,
            hint="Over which axis is the sum missing?",
        ),
        Wrong(
            "the mean of the weighted values instead of their sum",
            lambda w, v: (w[:, None] * v).mean(0),
            hint="The weights sum to 1 already. Is anything left to divide by?",
        ),
    ),
)
