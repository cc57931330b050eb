"""Exercises of lesson 05: split the weights."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    multi_head,
    multi_head_with_gaps,
    my_multi_head_attention,
    order_of_lines,
    project_to_heads,
    rows_of_head,
    scores_by_head,
    to_split,
    to_torch_mha,
)

SET = ExerciseSet(
    title="split the weights",
    intro=(
        "You will write multi-head attention as real models have it, and carry weights over: from a "
        "wrapper, and into PyTorch's own module.\n\n"
        "**You need** [lesson 05](../05_weight_split.ipynb). **It takes** about fifty minutes."
    ),
    imports="""\
import torch
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.exercises import check, progress, review""",
    after=("Passed them all? In [lesson 06](../06_multi_query.ipynb) the heads share their keys and values."),
    exercises=(
        scores_by_head.EXERCISE,
        order_of_lines.EXERCISE,
        multi_head_with_gaps.EXERCISE,
        multi_head.EXERCISE,
        to_split.EXERCISE,
        to_torch_mha.EXERCISE,
    ),
    blanks=(rows_of_head.EXERCISE, project_to_heads.EXERCISE, my_multi_head_attention.EXERCISE),
)
