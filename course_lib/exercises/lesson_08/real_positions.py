"""Count the positions of a padded batch."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def real_positions(real):
    # bool, True = a real word, (batch, token) -> int64, (batch, token)
    count = real.cumsum(dim=-1)  # real words up to here, this one included
    return (count - 1).clamp(min=0)


def _extract(result: Tensor, real: Tensor) -> Tensor:
    """Compare the positions of real words; those of padding may be any integers from 0 on."""
    if result.shape != real.shape or bool((result < 0).any()):
        return result
    return result.masked_fill(~real, 0)


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for number, (batch, num_tokens) in enumerate(rng.size_rows(4, 2, 3, 9)):
        lengths = torch.tensor([1 + rng.integer(num_tokens) for _ in range(batch)])
        lengths[0], lengths[1] = num_tokens, num_tokens - 2
        token = torch.arange(num_tokens)
        left = token >= num_tokens - lengths[:, None]
        side = "left" if number < 3 else "right"
        cases.append(Case((left if side == "left" else left.flip(-1),), f"the padding is on the {side}"))
    gap = torch.ones(2, 7, dtype=torch.bool)
    gap[0, 2:4] = False  # a prompt padded on the right, and new words behind it
    return [*cases, Case((gap,), "padding stands between a prompt and its new words")]


EXERCISE = FunctionExercise(
    real_positions,
    title="The positions of a padded batch",
    difficulty=2,
    minutes=3,
    prompt=(
        "`real` is True where a batch holds a real word and False where it holds padding. Return the position of each "
        "real word, which is the number of real words before it in its own sentence. The positions of "
        "padding are never used, so they may be anything from 0 on, but they must not be negative."
    ),
    hints=(
        "A word's position is the number of real words before it. Which function adds up along an axis?",
        "`real.cumsum(dim=-1)` counts the real words up to each token, with the token itself. Take 1 away, and lift "
        "what is below 0 with `clamp(min=0)`.",
    ),
    draw=_draw,
    arguments={"real": "batch token"},
    axes="batch token",
    fixed="token",
    extract=_extract,
    wrong="""
torch.arange(real.shape[-1]).expand(real.shape)
    the index of the column, in which padding is counted as if it were words
    ? Which position has the first real word of a sentence that is padded on the left?
(torch.arange(real.shape[-1]) - real.int().argmax(-1, keepdim=True)).clamp(min=0)
    columns counted from the first real word: padding between two words is counted, too
    ? In a batch padded on the right, what stands between the prompt and its new words?
1). => 0).
    positions that start at 1
    ? Which position has the first real word?
0 => -1
    positions that are negative where padding stands in front; a table has no row -1 that is meant
    ? What does `table[-1]` give in Python?
-1 => 0
    positions counted along the batch, down each column
    ? Along which axis do the words of a sentence follow each other?
(real.flip(-1).cumsum(-1).flip(-1) - 1).clamp(min=0)
    positions counted from the end of the sentence
    ? Which word of a sentence is at position 0?
""",
)
