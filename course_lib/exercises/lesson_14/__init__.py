"""Exercises of lesson 14: what attention costs."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    arithmetic_intensity,
    blocked_attention,
    bound_by,
    causal_blocks,
    explicit_intensity,
    merge_partial,
    my_tiled_attention,
    online_step,
    tokens_per_second,
)

SET = ExerciseSet(
    title="make it fast",
    intro=(
        "You will decide what a computation waits for, count what a model must read to write a token, write the loops "
        "of a fused kernel, in which hidden tiles are skipped, and merge what two workers computed.\n\n"
        "**You need** [lesson 14](../14_fast.ipynb). **It takes** about 40 minutes. Nothing is timed here: only the "
        "numbers are compared."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after=(
        "Passed them all? [Lesson 15](../15_debugging_attention.ipynb) finds mistakes that raise no error; "
        "[its exercises](15_exercises.ipynb) train that."
    ),
    exercises=(
        bound_by.EXERCISE,
        explicit_intensity.EXERCISE,
        tokens_per_second.EXERCISE,
        causal_blocks.EXERCISE,
        blocked_attention.EXERCISE,
        merge_partial.EXERCISE,
    ),
    blanks=(
        arithmetic_intensity.EXERCISE,
        online_step.EXERCISE,
        my_tiled_attention.EXERCISE,
    ),
)
