"""Fill rows of different lengths up to one table."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def pad_batch(rows, side):
    # list of lists of int, "left" or "right"
    # -> tokens, (batch, token) int64; real, (batch, token) bool
    longest = max(len(row) for row in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
    real = torch.zeros(len(rows), longest, dtype=torch.bool)
    for sample, row in enumerate(rows):
        start = 0 if side == "right" else longest - len(row)
        tokens[sample, start : start + len(row)] = torch.tensor(row)
        real[sample, start : start + len(row)] = True
    return tokens, real


def _extract(result: Any, rows: list[list[int]], side: str) -> Any:
    """Compare the tokens where a row has some; what the padding holds is up to the answer."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        return result
    tokens, real = result
    right = pad_batch(rows, side)[1]
    if isinstance(tokens, torch.Tensor) and tokens.shape == right.shape:
        tokens = tokens.masked_fill(~right, 0)
    return tokens, real


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for number, (batch, longest) in enumerate(rng.size_rows(4, 2, 3, 8)):
        lengths = rng.shuffled([longest, 1, longest - 1, *(1 + rng.integer(longest) for _ in range(batch - 3))])
        rows = [rng.integers(90, length).tolist() for length in lengths]
        side = ("left", "right")[number % 2]
        cases.append(Case((rows, side), f"the padding is on the {side}"))
    return cases


EXERCISE = FunctionExercise(
    pad_batch,
    title="A batch of different lengths",
    difficulty=2,
    minutes=4,
    prompt=(
        "`rows` is a list of texts, each a list of token numbers. Make one table of them, (batch, token), as long as "
        "the longest, with the padding on the `side` that is asked for. Return it with `real`, a bool table of the same "
        "shape, True where a token of a text stands. What number the padding holds is up to you."
    ),
    hints=(
        "Make two tables first, one of zeros and one of False, and fill the rows in one by one.",
        "A row of `len(row)` tokens begins in column 0, or, with the padding on the left, in column "
        "`longest - len(row)`.",
        "`tokens[sample, start : start + len(row)] = torch.tensor(row)`, and True at the same place of `real`.",
    ),
    draw=_draw,
    axes="tokens real",
    extract=_extract,
    wrong="""
right(rows, "left")
    padding on the left, whatever `side` is
    ? Where does your code use `side`?
right(rows, "right")
    padding on the right, whatever `side` is
    ? Where does your code use `side`?
result[0], ~result[1]
    a table that is True at the padding
    ? What does True in `real` stand for?
result[0], result[0] != 0
    a table that is True where the token isn't 0: a text may hold that number
    ? Is 0 the number of a word, too?
right(rows, {"left": "right", "right": "left"}[side])
    padding on the other side
    ? Padding on the left: which columns of a short row are words?
tokens, real = right(rows, side); return tokens, torch.ones_like(real)
    a table that is True everywhere
    ? Which entries of a short row are padding?
""",
)
