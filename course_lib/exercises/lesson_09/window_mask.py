"""The mask of a sliding window."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def window_mask(num_tokens, window):  # -> bool (query, key), True = may attend
    position = torch.arange(num_tokens)
    # (query, key): how far the key is behind the query
    distance = position[:, None] - position
    return (distance >= 0) & (distance < window)


def _distance(num_tokens: int) -> Tensor:
    position = torch.arange(num_tokens)
    return position[:, None] - position


def _draw(rng: InputGenerator) -> list[Case]:
    rows = [(tokens + window, window) for tokens, window in rng.size_rows(4, 2, 2, 8)]
    shorter, longer = sorted(rng.sizes(2, 3, 9))
    return [*(Case(row) for row in rows), Case((shorter, longer)), Case((longer, 1))]


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
    draw=_draw,
    least={"num_tokens": 1, "window": 1},
    draw_edges=lambda rng: [Case((200, 150))],
    axes="query key",
    own_dtype=True,
    wrong=(
        Wrong(
            "a window one token too wide: window keys besides the query's own",
            lambda n, w: (_distance(n) >= 0) & (_distance(n) <= w),
            "window-off-by-one",
            hint="Does the query's own token count as one of the window's keys?",
        ),
        Wrong(
            "a window one token too narrow",
            lambda n, w: (_distance(n) >= 0) & (_distance(n) < w - 1),
            "window-off-by-one",
            hint="With window=1, which key is left to a token?",
        ),
        Wrong(
            "the causal mask, without a window",
            lambda n, w: _distance(n) >= 0,
            hint="Which keys are too far away?",
        ),
        Wrong(
            "a window to both sides: later tokens are not hidden",
            lambda n, w: _distance(n).abs() < w,
            "no-causal-mask",
        ),
        Wrong(
            "a window that leaves out the query's own token",
            lambda n, w: (_distance(n) > 0) & (_distance(n) <= w),
            "mask-off-by-one",
            hint="May a token attend to itself?",
        ),
        Wrong("the transposed mask", lambda n, w: (_distance(n).mT >= 0) & (_distance(n).mT < w), "mask-transposed"),
        Wrong(
            "the opposite mask, True where a key is hidden",
            lambda n, w: ~((_distance(n) >= 0) & (_distance(n) < w)),
            "mask-inverted",
        ),
        Wrong(
            "blocks side by side in place of a window that slides",
            lambda n, w: (
                (_distance(n) >= 0) & (torch.arange(n)[:, None].div(w, rounding_mode="floor") == torch.arange(n) // w)
            ),
            hint="Which keys may the first token of your second block attend to?",
        ),
        Wrong(
            "a window one token short: it leaves out the query's own token",
            lambda n, w: (_distance(n) > 0) & (_distance(n) < w),
            "mask-off-by-one",
            hint="May a token attend to itself?",
        ),
    ),
)
