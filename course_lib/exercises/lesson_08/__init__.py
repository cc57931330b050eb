"""Exercises of lesson 08: padded batches and cross-attention."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    batch_keep,
    cross_attention,
    last_real_output,
    my_cross_attention,
    pad_batch,
    padding_of_sorted,
    padding_probe,
    patient_d,
    real_positions,
    write_batch,
)

SET = ExerciseSet(
    title="padding and two sequences",
    intro=(
        "You will find the last word of each text in a padded batch, count how much padding sorting saves, and write "
        "the test that catches a batch whose texts are not what they are alone. Then you will let one sequence attend "
        "to another, and find what is wrong with somebody else's class that does.\n\n"
        "**You need** [lesson 08](../08_padding.ipynb). **It takes** about 30 minutes."
    ),
    imports="""\
import torch
from torch import nn

from course_lib.exercises import check, progress, review""",
    after="Passed them all? [Lesson 09](../09_llama.ipynb) puts your rotation and your shared heads together.",
    exercises=(
        last_real_output.EXERCISE,
        padding_of_sorted.EXERCISE,
        padding_probe.EXERCISE,
        cross_attention.EXERCISE,
        patient_d.EXERCISE,
    ),
    blanks=(
        pad_batch.EXERCISE,
        real_positions.EXERCISE,
        batch_keep.EXERCISE,
        write_batch.EXERCISE,
        my_cross_attention.EXERCISE,
    ),
)
