"""Exercises of lesson 15: find the mistake."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    cache_probe,
    future_probe,
    leaks,
    mended_b,
    mended_c,
    patient_a,
    patient_b,
    patient_c,
    without_gradient,
)

SET = ExerciseSet(
    title="find the mistake",
    intro=(
        "You will write a probe that lists every leak, find the mistakes in three modules that others wrote, and fix "
        "two of them. All three run, return the right shape and train, and none of the three mistakes was planted in "
        "the lesson.\n\n"
        "**You need** lessons [05](../05_weight_split.ipynb), [06](../06_multi_query.ipynb) and "
        "[15](../15_debugging_attention.ipynb). **It takes** about 30 minutes. A mistake is answered by its name in "
        "the course's catalogue, which the cell below prints."
    ),
    imports="""\
from textwrap import fill

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import CATALOGUE
from course_lib.exercises import (
    check,
    from_earlier,
    mistake_of_the_day,
    progress,
    review,
)
from course_lib.recorder import record

without_gradient = from_earlier("without_gradient")  # your probe from the lesson
for mistake in CATALOGUE.values():
    print(fill(f"{mistake.id:26} {mistake.title}", 88, subsequent_indent=" " * 27))""",
    after="Passed them all? Then read your own code with the same eyes.",
    exercises=(
        leaks.EXERCISE,
        patient_a.EXERCISE,
        patient_b.EXERCISE,
        patient_c.EXERCISE,
        mended_b.EXERCISE,
        mended_c.EXERCISE,
    ),
    blanks=(future_probe.EXERCISE, without_gradient.EXERCISE, cache_probe.EXERCISE),
    last=(
        (
            "## The mistake of the day\n\n"
            "Each number is another module with one mistake, in code that nobody wrote before; without a number it is "
            "today's. Read it, build it and probe it: `module.build()` makes it, with d_in 7, d_out 24, 6 heads and "
            '2 kv heads, and it takes (batch, token, 7). Then name the mistake: `module.answer("no-softmax")`.',
            "module = mistake_of_the_day(1)\nmodule",
        ),
    ),
)
