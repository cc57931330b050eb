"""Softmax in your own words."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def softmax_rows(scores):  # (query, key) -> (query, key)
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


EXERCISE = FunctionExercise(
    softmax_rows,
    title="Softmax in your own words",
    difficulty=2,
    minutes=9,
    prompt=(
        "Scores in, weights out: positive, and each row sums to 1. Try to do without `softmax`; the check "
        "also comes with scores around 2000. What is exp(2000)? And what changes if the same number is taken from all "
        "scores of a row?"
    ),
    hints=(
        "Two steps: `scores.exp()` makes every score positive; then divide each row by its sum.",
        "`exp(2000)` is infinite. Subtracting the same number from all scores of a row leaves its weights as they are, "
        "because exp(a - c) = exp(a) / exp(c). Take each row's largest: `scores.amax(dim=-1, keepdim=True)`.",
        "`sum(dim=-1)` of (query, key) is (query), one number per row, and PyTorch would line these up with the "
        "*columns*. `sum(dim=-1, keepdim=True)` is (query, 1), a column, and divides row by row.",
    ),
    calls=2,
    std=3.0,
    special={
        "there is one query and one key": {"query": 1, "key": 1},
        "the scores are about 2000": {"scores": lambda rng, scores: scores + 2000.0 + rng.integer(1000)},
        "each row lies 800 below the one before": {
            "scores": lambda scores: scores - 800.0 * torch.arange(len(scores))[:, None]
        },
        "one score of each row is about 3000 and the others about 0": {
            "scores": lambda scores: scores + 3000.0 * (torch.arange(scores.shape[1]) == 1)
        },
    },
    arguments={"scores": "query key"},
    axes="query key",
    gradients=("scores",),
    wrong="""
scores.softmax(0)
    softmax over the queries: each column sums to 1 [softmax-wrong-axis]
scores.flatten().softmax(0).view_as(scores)
    softmax over the whole table: all elements together sum to 1 [softmax-wrong-axis]
scores / scores.sum(-1, keepdim=True)
    each score divided by the sum of its row, without exp [no-softmax]
scores
    the scores themselves [no-softmax]
scores - scores.amax(dim=-1, keepdim=True) => scores
    softmax without a guard against large scores: exp(2000) is infinite
    ? Softmax doesn't change if a row's largest score is subtracted first. What does exp get to see then?
scores.exp()
    exp of the scores, not yet divided by their sum [no-softmax]
(scores - scores.amax(-1, keepdim=True)).exp()
    exp of the scores less the row's largest, not yet divided by their sum [no-softmax]
result.softmax(-1)
    softmax taken twice [double-softmax]
scores.log_softmax(-1)
    the logarithm of the weights
""",
)
