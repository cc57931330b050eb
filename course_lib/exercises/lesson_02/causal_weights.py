"""Weights that don't see the future."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise

from .causal_mask import causal_mask


def causal_weights(scores):  # (batch, query, key) -> (batch, query, key)
    keep = causal_mask(scores.shape[-1])
    return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)


EXERCISE = FunctionExercise(
    causal_weights,
    title="Weights that don't see the future",
    difficulty=2,
    minutes=5,
    prompt=(
        "From scores, already scaled, to weights, with the future hidden. The scores are given to you and are not to "
        "be changed: others may still need them. What is hidden counts for nothing, however large it is. The check "
        "also comes with hidden scores far above the others, and with scores around 800 and around -30000."
    ),
    hints=(
        "The mask acts on the scores, before softmax: what is hidden must get a weight of exactly 0.",
        "Which score does softmax turn into 0? Not 0: exp(0) is 1.",
        "`scores.masked_fill(~keep, -torch.inf)` returns a new tensor. Use it.",
    ),
    inputs={"scores": "batch token token"},
    std=2.0,
    also=({"batch": 1, "token": 1},),
    special={
        "all scores are about -30000": {"scores": lambda scores: scores - 30000.0},
        "the scores to hide are about 800 and the others about 0": {
            "scores": lambda scores: scores + 800.0 * torch.ones_like(scores).triu(1)
        },
        "half of the scores are about 800, the others about -800": {
            "scores": lambda scores: scores + 800.0 * (-1.0) ** torch.arange(scores.shape[1])
        },
        "the scores to hide are about 1e12 and the others about 0": {
            "scores": lambda scores: scores + 1e12 * torch.ones_like(scores).triu(1)
        },
    },
    draw_edges=({"token": 300},),
    arguments={"scores": "batch query key"},
    axes="batch query key",
    fixed="query key",
    gradients=("scores",),
    wrong="""
scores.softmax(-1)
    softmax without a mask [mask-discarded]
scores.softmax(-1).tril() / scores.softmax(-1).tril().sum(-1, keepdim=True)
    visible weights divided by their sum, after exp or softmax looked at all scores: under hidden scores of 800 nothing
        is left
    ? If a hidden score is 800 above the others, what is left of these less the largest?
scores.exp().tril() / scores.exp().tril().sum(-1, keepdim=True)
    exp of the visible scores divided by their sum, without a guard: exp(800) is infinite
    ? Which number may be taken from all scores of a row without a change of its weights?
scores.masked_fill(~keep, -torch.inf) => (scores - 100.0 * ~keep)
    softmax of scores from which a fixed number was taken where they are hidden
    ? What is left of a hidden score that was 800?
scores.masked_fill(~keep, -torch.inf) => (scores - 1e9 * ~keep)
    softmax of scores to which a number such as -1e9 was added where they are hidden: the score itself is still in them
    ? What is left of a hidden score that was 1e12?
right(scores / scores.shape[-1] ** 0.5)
    softmax of scores that were scaled once more [wrong-scale]
    ? Does the task give you scores that still have to be divided?
-torch.inf => -20.0
    softmax with a fill value that is not below all scores here
    ? Which number is below every score, however low?
""",
)
