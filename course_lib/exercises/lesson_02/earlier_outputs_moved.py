"""The number that tells whether the future leaks."""

from __future__ import annotations

from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def earlier_outputs_moved(before, after):  # (batch, token, width) twice -> one number
    moved = (after - before).abs()
    return moved[:, :-1].max()


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    changes = zip((30.0, 0.0, 30.0), (-1, 0, -1), rng.size_rows(3, 3, 2, 7), strict=True)
    for last, sample, (batch, tokens, width) in changes:
        before, moved = rng.normal(batch, tokens, width), rng.normal(batch, tokens, width)
        token, element = rng.integer(tokens - 1), rng.integer(width)
        moved[sample, token, element] -= 9.0  # so that the largest difference is a negative one
        after = before + moved
        after[:, -1] += last
        cases.append(Case((before, after)))
    return cases


EXERCISE = FunctionExercise(
    earlier_outputs_moved,
    title="How far the earlier outputs moved",
    difficulty=1,
    minutes=3,
    prompt=(
        "The outputs before and after the last token was changed. By how much did the outputs of all tokens *but the "
        "last* move? Return the largest difference, without its sign."
    ),
    hints=(
        "`after - before` has a sign; `.abs()` takes it away.",
        "The tokens are axis 1. `moved[:, :-1]` leaves the last one out, and `.max()` is the largest number.",
    ),
    draw=_draw,
    arguments={"before": "batch token width", "after": "batch token width"},
    axes="",
    fixed="token",
    wrong=(
        Wrong(
            "the largest difference of all outputs, including the last token's",
            lambda b, a: (a - b).abs().max(),
            hint="The last token was changed on purpose. Should its own output count?",
        ),
        Wrong(
            "the largest difference with its sign: an output that moved down is overlooked",
            lambda b, a: (a - b)[:, :-1].max(),
            hint="What is the largest of -5 and 1, and which of them moved further?",
        ),
        Wrong(
            "the mean difference instead of the largest",
            lambda b, a: (a - b)[:, :-1].abs().mean(),
            hint="What does a mean make of one large leak among many zeros?",
        ),
        Wrong(
            "the difference of the last token's output",
            lambda b, a: (a - b)[:, -1].abs().max(),
            hint="Which tokens must not notice the change?",
        ),
        Wrong(
            "the largest difference with the last number of each token left out, not the last token",
            lambda b, a: (a - b)[:, :, :-1].abs().max(),
            hint="Which axis holds the tokens?",
        ),
        Wrong(
            "the largest difference with the last sample left out, not the last token",
            lambda b, a: (a - b)[:-1].abs().max(),
            hint="Which axis holds the tokens?",
        ),
        Wrong(
            "the largest difference in the first sample",
            lambda b, a: (a - b)[0, :-1].abs().max(),
            hint="Which axis holds the samples, and how many are there?",
        ),
    ),
    extract=lambda result, *_: result.item() if isinstance(result, Tensor) and result.numel() == 1 else result,
)
