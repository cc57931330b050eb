"""The attention weights of one token."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def attention_weights(scores):  # (key) -> (key), all positive, sum 1
    exponentials = scores.exp()
    return exponentials / exponentials.sum()


def _draw(rng: InputGenerator) -> list[Case]:
    cases = [Case((rng.normal(keys, std=1.5),)) for keys in rng.sizes(3, 3, 9)]
    return [*cases, Case((rng.normal(7) - 4.0,), "all scores are negative")]


EXERCISE = FunctionExercise(
    attention_weights,
    title="Attention weights of one token",
    difficulty=1,
    minutes=3,
    prompt="Scores of one token in, attention weights out: all positive, with the sum 1.",
    hints=(
        "`scores.exp()` is positive whatever the scores are.",
        "Divide by the sum, and the sum becomes 1.",
    ),
    draw=_draw,
    draw_edges=lambda rng: [Case((rng.normal(20),))],
    arguments={"scores": "key"},
    axes="key",
    wrong=(
        Wrong("exp of the scores, not yet divided by their sum", lambda s: s.exp(), "no-softmax"),
        Wrong("each score divided by the sum of the scores, without exp", lambda s: s / s.sum(), "no-softmax"),
        Wrong("the scores themselves", lambda s: s, "no-softmax"),
        Wrong("softmax taken twice", lambda s: s.softmax(0).softmax(0), "double-softmax"),
        Wrong(
            "the weights of scores with the opposite sign",
            lambda s: (-s).softmax(0),
            hint="Should a large score make a large weight, or a small one?",
        ),
        Wrong("the logarithm of the weights", lambda s: s.log_softmax(0)),
        Wrong(
            "1 for the largest score and 0 for all others",
            lambda s: (s == s.max()).to(s.dtype),
            hint="How much does a key get whose score is almost the largest?",
        ),
    ),
)
