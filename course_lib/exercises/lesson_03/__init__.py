"""Exercises of lesson 03: heads side by side."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import mix_heads, my_wrapper, output_of_head, two_heads, two_mixes, wrapper

SET = ExerciseSet(
    title="heads side by side",
    intro=(
        "You will run two heads by hand, mix heads with W^O, and write the wrapper.\n\n"
        "**You need** [lesson 03](../03_wrapper.ipynb). **It takes** about twenty minutes."
    ),
    imports="""\
import torch
from torch import nn

from course_lib.attention import SingleHeadAttention
from course_lib.exercises import check, progress, review""",
    after=("Passed them all? [Lesson 04](../04_reshape_and_transpose.ipynb) cuts the heads out of one wide tensor."),
    exercises=(
        two_heads.EXERCISE,
        mix_heads.EXERCISE,
        wrapper.EXERCISE,
    ),
    blanks=(two_mixes.EXERCISE, output_of_head.EXERCISE, my_wrapper.EXERCISE),
)
