"""Exercises of lesson 04: reshape and transpose."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import from_heads, merge_heads, needs_copy, number_at, slot_of, split_heads, strides_by_head, to_heads

SET = ExerciseSet(
    title="reshape and transpose",
    intro=(
        "You will read memory by strides, predict the strides of a tensor of heads, cut heads out and put "
        "them back, and say which joins need a copy.\n\n"
        "**You need** [lesson 04](../04_reshape_and_transpose.ipynb). **It takes** about half an hour."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after=("Passed them all? In [lesson 05](../05_weight_split.ipynb) the two moves become multi-head attention."),
    exercises=(
        number_at.EXERCISE,
        strides_by_head.EXERCISE,
        split_heads.EXERCISE,
        merge_heads.EXERCISE,
        needs_copy.EXERCISE,
    ),
    blanks=(slot_of.EXERCISE, to_heads.EXERCISE, from_heads.EXERCISE),
)
