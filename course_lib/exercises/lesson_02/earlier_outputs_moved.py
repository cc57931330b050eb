"""The number that tells whether the future leaks."""

from __future__ import annotations

from torch import Tensor

from course_lib.exercises.exercise import Case
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
    wrong="""
:, :-1 => :
    the largest difference of all outputs, including the last token's
    ? The last token was changed on purpose. Should its own output count?
(after - before).abs() => after - before
    the largest difference with its sign: an output that moved down is overlooked
    ? What is the largest of -5 and 1, and which of them moved further?
(after - before).abs() => before - after
    the largest difference with its sign: an output that moved up is overlooked
    ? What is the largest of -5 and 1, and which of them moved further?
(after - before)[:, :-1].abs().mean()
    the mean difference instead of the largest
    ? What does a mean make of one large leak among many zeros?
(after - before)[:, -1].abs().max()
    the difference of the last token's output
    ? Which tokens must not notice the change?
(after - before)[:, :, :-1].abs().max()
    the largest difference with the last number of each token left out, not the last token
    ? Which axis holds the tokens?
:, :-1 => :-1
    the largest difference with the last sample left out, not the last token
    ? Which axis holds the tokens?
(after - before)[0, :-1].abs().max()
    the largest difference in the first sample
    ? Which axis holds the samples, and how many are there?
""",
    extract=lambda result, *_: result.item() if isinstance(result, Tensor) and result.numel() == 1 else result,
)
