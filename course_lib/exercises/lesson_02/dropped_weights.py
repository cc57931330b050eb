"""What dropout does to a weight."""

from course_lib.exercises.function_exercise import FunctionExercise


def dropped_weights(weights, drop, p, training):
    # (query, key), (query, key) bool, float, bool -> (query, key)
    if not training:
        return weights
    return weights.masked_fill(drop, 0.0) / (1 - p)


EXERCISE = FunctionExercise(
    dropped_weights,
    title="What dropout does to a weight",
    difficulty=2,
    minutes=4,
    prompt=(
        "The dice have been thrown: `drop` is True where a weight is to be dropped. What does dropout with "
        "probability `p` make of the weights, in training and in evaluation?"
    ),
    hints=(
        "Three cases: dropped in training, kept in training, and evaluation.",
        "In evaluation nothing happens. In training a dropped weight is 0.",
        "A kept weight must make up for the others: only 1 - p of them are left.",
    ),
    inputs={
        "weights": lambda weights: weights.softmax(-1),
        "drop": lambda drop: drop > 0,
        "percent": [10, 55],  # never 50, where p and 1 - p are the same
        "p": lambda rng, percent: (percent + rng.integer(35)) / 100,
        "training": True,
    },
    calls=2,
    special={
        "p is 0": {"p": 0.0, "drop": lambda drop: drop & False},
        "training is False": {"training": False, "percent": 55},
    },
    arguments={"weights": "query key", "drop": "query key"},
    axes="query key",
    gradients=("weights",),
    wrong="""
not training => False
    dropout that stays on in evaluation [dropout-at-eval]
    ? What should become of the weights where `training` is False?
1 - p => 1
    dropout that only zeroes: the sum gets smaller on average
    ? If one weight in five goes, how much must the others grow, so that the sum stays on average?
weights * ~drop
    dropout with two faults: what is kept doesn't grow, and weights are dropped in evaluation, too [dropout-at-eval]
    ? What should become of the weights where `training` is False? And what of the kept ones where it is True?
weights * ~drop * (1 - p) if training else weights
    dropout whose survivors shrink by 1 - p instead of growing by 1 / (1 - p)
    ? Should what is left grow or shrink?
1 - p => p
    dropout that divides by p, the share that goes, instead of 1 - p, the share that stays
    ? Which share of the weights survives?
weights * ~drop / (weights * ~drop).sum(-1, keepdim=True) if training else weights
    weights that sum to 1 again in each row: dropout does not do that, it keeps the sum only on average
weights * drop / (1 - p) if training else weights
    the weights that should have gone: True in drop means dropped [mask-inverted]
    ? What does True mean in `drop`?
F.dropout(weights, p, training)
    dropout with dice of its own, thrown by PyTorch
    ? The dice have been thrown. Where does your code use `drop`?
weights
    no dropout at all
    ? What happens to a weight where drop is True?
weights * ~drop / (1 - p) if training else weights * (1 - p)
    dropout that shrinks the weights in evaluation, although those kept in training have grown
    ? If the mean stays as it was in training, what is left to do where `training` is False?
weights * ~drop if training else weights * (1 - p)
    dropout that scales in evaluation; PyTorch's scales in training
    ? What should become of the weights where `training` is False?
""",
)
