"""The mask of a sliding window."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def window_mask(num_tokens, window):  # -> bool (query, key), True = may attend
    position = torch.arange(num_tokens)
    # (query, key): how far the key is behind the query
    distance = position[:, None] - position
    return (distance >= 0) & (distance < window)


EXERCISE = FunctionExercise(
    window_mask,
    title="The mask of a window",
    difficulty=2,
    minutes=2,
    prompt=(
        "Give back the mask of a causal sliding window, (query, key), True = may attend: each token may attend to "
        "itself and to the `window - 1` tokens before it."
    ),
    hints=(
        "Subtract the positions of the keys from those of the queries: `position[:, None] - position`.",
        "The distance must not be negative, and it must be smaller than `window`.",
    ),
    inputs={"num_tokens": lambda window, more: window + more},
    calls=4,
    also=({"num_tokens": 2}, {"window": 1}),
    least={"num_tokens": 1, "window": 1},
    most={"num_tokens": 300, "window": 200},
    axes="query key",
    own_dtype=True,
    wrong="""
distance < window => distance <= window
    a window one token too wide: window keys besides the query's own [window-off-by-one]
    ? Does the query's own token count as one of the window's keys?
< window => < window - 1
    a window one token too narrow [window-off-by-one]
    ? With window=1, which key is left to a token?
< window => < num_tokens
    the causal mask, without a window
    ? Which keys are too far away?
(distance >= 0) & (distance < window) => distance.abs() < window
    a window to both sides: later tokens are not hidden [no-causal-mask]
>= 0 => > 0 && < window => <= window
    a window that leaves out the query's own token [mask-off-by-one]
    ? May a token attend to itself?
position[:, None] - position => position - position[:, None]
    the transposed mask [mask-transposed]
~result
    the opposite mask, True where a key is hidden [mask-inverted]
distance < window => position[:, None] // window == position // window
    blocks side by side in place of a window that slides
    ? Which keys may the first token of your second block attend to?
0 => 1
    a window one token short: it leaves out the query's own token [mask-off-by-one]
    ? May a token attend to itself?
""",
)
