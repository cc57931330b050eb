"""One query with two contexts."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def two_mixes(weights_0, weights_1, values):  # (key,), (key,), (key, width) -> (width,)
    half = values.shape[1] // 2
    context_0 = weights_0 @ values[:, :half]
    context_1 = weights_1 @ values[:, half:]
    return torch.cat([context_0, context_1])


EXERCISE = FunctionExercise(
    two_mixes,
    title="One query, two mixes",
    difficulty=1,
    minutes=3,
    prompt=(
        "One query has two rows of attention weights. Head 0 mixes the first half of the value columns with "
        "`weights_0`, head 1 mixes the second half with `weights_1`, and the two results stand side by side."
    ),
    hints=(
        "`values[:, :half]` are the columns of head 0. A mix is `weights @ values`.",
        "`torch.cat([context_0, context_1])` puts the two side by side.",
    ),
    inputs={
        "values": "key 2*half",
        "weights_0": lambda weights_0: (2 * weights_0).softmax(0),
        "weights_1": lambda weights_1: (2 * weights_1).softmax(0),
    },
    arguments={"weights_0": "key", "weights_1": "key", "values": "key width"},
    axes="width",
    fixed="width",
    wrong="""
2 => 1
    the mix that head 0 alone makes of all columns
    ? Which attention weights mix the second half of the columns?
(weights_0 + weights_1) / 2 @ values
    one mix with the mean of both rows of attention weights, as a single head makes it [heads-averaged]
(weights_0 + weights_1) @ values
    one mix with the sum of both rows of attention weights [heads-averaged]
right(weights_1, weights_0, values)
    the heads with exchanged attention weights
    ? Which of the two rows belongs to the first half?
torch.cat([weights_0 @ values, weights_1 @ values])
    every head's mix of all columns, side by side
    ? How many columns of `values` belong to one head?
:half => ::2 && half: => 1::2
    every second column for each head; a head has a half of the columns, side by side
    ? Which columns does `values[:, :half]` take?
""",
)
