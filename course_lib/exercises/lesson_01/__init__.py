"""Exercises of lesson 01: one attention head."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    attention,
    attention_weights,
    context_of_token,
    my_head,
    scaled_scores,
    scores_of_token,
    single_head,
    single_head_with_gaps,
    softmax_rows,
)

SET = ExerciseSet(
    title="one attention head",
    intro=(
        "You will write one attention head in six small pieces. Each of them is followed by a check, which runs "
        "your code on numbers of its own and says what is wrong with it.\n\n"
        "**You need** [lesson 01](../01_single_head.ipynb). **It takes** about thirty-five minutes. Any right way is "
        "right: loops, products, `einsum`, PyTorch's own functions. The hints below each check fold out one "
        "at a time and say more and more."
    ),
    imports="""\
import torch
from torch import nn

from course_lib.exercises import check, progress""",
    after="Passed them all? [Lesson 02](../02_masks_and_dropout.ipynb) hides what must not be seen.",
    exercises=(
        scores_of_token.EXERCISE,
        scaled_scores.EXERCISE,
        softmax_rows.EXERCISE,
        attention.EXERCISE,
        single_head_with_gaps.EXERCISE,
        single_head.EXERCISE,
    ),
    blanks=(attention_weights.EXERCISE, context_of_token.EXERCISE, my_head.EXERCISE),
)
