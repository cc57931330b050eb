"""The context of one token."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def context_of_token(weights, values):  # (key), (key, width) -> (width)
    context = torch.zeros_like(values[0])
    for key in range(len(weights)):
        context = context + weights[key] * values[key]
    return context


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
    inputs={"weights": lambda weights: weights.softmax(0)},
    arguments={"weights": "key", "values": "key width"},
    axes="width",
    wrong="""
values.mean(0)
    the plain mean of the values, whatever the weights are [weights-not-applied]
values.sum(0)
    the sum of the values, whatever the weights are [weights-not-applied]
values[weights.argmax()]
    the value with the largest weight alone
    ? What becomes of the other values?
weights[0] * values[0]
    what the first key alone adds
    ? After which round does your loop end: does `return` stand inside it?
weights[-1] * values[-1]
    what the last key alone adds
    ? Does each round of your loop add to the context, or replace it?
weights[:-1] @ values[:-1]
    the context without the last key
    ? At which key does your loop end?
weights[1:] @ values[1:]
    the context without the first key
    ? At which key does your loop begin?
weights[:, None] * values
    the weighted values before they are added up
    ? Over which axis is the sum missing?
(weights[:, None] * values).mean(0)
    the mean of the weighted values instead of their sum
    ? The weights sum to 1 already. Is anything left to divide by?
""",
)
