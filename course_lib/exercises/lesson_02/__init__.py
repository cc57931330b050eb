"""Exercises of lesson 02: masks and dropout."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    causal_mask,
    causal_weights,
    decode_mask,
    dropped_weights,
    earlier_outputs_moved,
    joined_mask,
    masked_weights,
    my_causal_head,
    padding_mask,
    safe_weights,
    to_torch_mask,
)

SET = ExerciseSet(
    title="masks and dropout",
    intro=(
        "You will build both masks and join them, hide the future in a table of scores, translate masks for "
        "PyTorch, save a row that may look at nothing, do by hand what dropout does, and mask a few new tokens.\n\n"
        "**You need** [lesson 02](../02_masks_and_dropout.ipynb). **It takes** about fifty minutes. A mask is "
        "called `keep` here, as in the lesson: bool, True = may attend."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after="Passed them all? [Lesson 03](../03_wrapper.ipynb) puts heads side by side.",
    exercises=(
        causal_mask.EXERCISE,
        causal_weights.EXERCISE,
        padding_mask.EXERCISE,
        joined_mask.EXERCISE,
        to_torch_mask.EXERCISE,
        safe_weights.EXERCISE,
        dropped_weights.EXERCISE,
        decode_mask.EXERCISE,
    ),
    blanks=(masked_weights.EXERCISE, my_causal_head.EXERCISE, earlier_outputs_moved.EXERCISE),
)
