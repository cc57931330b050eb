"""Exercises of lesson 11: latent attention, and pages."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    absorb_value_projection,
    blocks_taken,
    flat_slot,
    forks_apart,
    gather_blocks,
    latent_cache_bytes,
    latent_queries,
    mended_gather,
    my_latent_attention,
)

SET = ExerciseSet(
    title="latent attention, and pages",
    intro=(
        "You will count what a latent cache costs, absorb the second matrix, find slots and blocks in a paged memory, "
        "find a mistake in code that reads one, and write the test that catches two sequences in one page.\n\n"
        "**You need** [lesson 11](../11_latent_and_pages.ipynb). **It takes** about 40 minutes."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after="Passed them all? Then go on with [the forms of 2026](12_exercises.ipynb).",
    exercises=(
        latent_cache_bytes.EXERCISE,
        absorb_value_projection.EXERCISE,
        flat_slot.EXERCISE,
        blocks_taken.EXERCISE,
        mended_gather.EXERCISE,
        forks_apart.EXERCISE,
    ),
    blanks=(latent_queries.EXERCISE, my_latent_attention.EXERCISE, gather_blocks.EXERCISE),
)
