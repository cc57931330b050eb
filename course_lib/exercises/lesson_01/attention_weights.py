"""The attention weights of one token."""

from course_lib.exercises.function_exercise import FunctionExercise


def attention_weights(scores):  # (key) -> (key), all positive, sum 1
    exponentials = scores.exp()
    return exponentials / exponentials.sum()


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
    std=1.5,
    special={"all scores are negative": {"scores": lambda scores: scores - 8.0}},
    draw_edges=({"key": 20},),
    arguments={"scores": "key"},
    axes="key",
    wrong="""
scores.exp()
    exp of the scores, not yet divided by their sum [no-softmax]
scores.exp() => scores
    each score divided by the sum of the scores, without exp [no-softmax]
scores
    the scores themselves [no-softmax]
result.softmax(-1)
    softmax taken twice [double-softmax]
(-scores).softmax(0)
    the weights of scores with the opposite sign
    ? Should a large score make a large weight, or a small one?
(scores == scores.max()).to(scores.dtype)
    1 for the largest score and 0 for all others
    ? How much does a key get whose score is almost the largest?
""",
)
