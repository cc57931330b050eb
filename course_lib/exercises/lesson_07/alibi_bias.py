"""The bias of ALiBi."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise


def alibi_bias(num_heads, num_tokens):  # two ints -> (head, query, key)
    slopes = 2.0 ** (-8 * (torch.arange(num_heads) + 1) / num_heads)  # (head)
    position = torch.arange(num_tokens)
    distance = position[:, None] - position  # (query, 1) - (key) -> (query, key)
    return -slopes[:, None, None] * distance  # (h, 1, 1) * (q, k) -> (h, q, k)


def _extract(result: Tensor, *_: object) -> Tensor:
    """Compare what is not hidden by the causal mask."""
    return result.tril() if isinstance(result, Tensor) and result.dim() >= 2 else result


EXERCISE = FunctionExercise(
    alibi_bias,
    title="A bias for each head",
    difficulty=2,
    minutes=6,
    prompt=(
        "ALiBi adds to each score the bias -slope * distance, where the distance is by how many tokens the query comes "
        "after the key. Head i of `num_heads`, counted from 0, has the slope 2 ** (-8 (i + 1) / num_heads). Return the "
        "table of all biases, (head, query, key). Keys after the query are hidden by the causal mask, so that their "
        "biases may be anything."
    ),
    hints=(
        "The distances are the same for all heads: a column of query positions minus a row of key positions.",
        "The slopes need two more axes behind them, `slopes[:, None, None]`, to broadcast over queries and keys.",
        "`-slopes[:, None, None] * (position[:, None] - position)`.",
    ),
    inputs={"num_heads": [1, 2, 4, 8, 16], "num_tokens": lambda token: token},
    calls=4,
    draw_edges=({"num_heads": 8, "num_tokens": 1},),
    axes="head query key",
    extract=_extract,
    own_dtype=True,
    wrong="""
-result
    biases with the other sign: the most distant word wins [bias-wrong-sign]
    ? Which word should get more, the nearest or the most distant?
(torch.arange(num_heads) + 1) => torch.arange(num_heads)
    slopes that begin with 1
    ? What is the slope of head 0 of eight?
-8 * => -
    slopes without the 8 in the exponent
    ? What is the slope of head 0 of eight?
result.flip(0)
    slopes in reverse: the last head is the steepest
    ? Which head looks close by, the first or the last?
(torch.arange(num_heads) + 1) / num_heads => (torch.arange(num_heads) + 1) / 8
    slopes of eight heads, whatever `num_heads` is
    ? Where does your code use `num_heads`?
slopes[:, None, None] * distance => slopes[:, None, None] * distance.abs().clamp(max=1)
    one step for all distances
    ? How much larger is the bias at distance 5 than at distance 1?
result.movedim(0, -1)
    the right numbers with the heads on the last axis
    ? In which order are the three axes asked for?
""",
)
