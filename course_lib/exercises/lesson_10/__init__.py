"""Exercises of lesson 10: windows, sinks, latent vectors and pages."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    absorb_value_projection,
    earliest_token,
    flat_slot,
    gather_blocks,
    latent_cache_bytes,
    latent_queries,
    rolling_slot,
    round_to_bits,
    sink_weights,
    window_mask,
    window_with_sinks,
)

SET = ExerciseSet(
    title="smaller caches",
    intro=(
        "You will write the mask of a window with attention sinks, find tokens in a rolling cache and in a paged one, "
        "compute how far windows reach through a stack of layers, and absorb the second matrix of latent attention.\n\n"
        "**You need** [lesson 10](../10_smaller_caches.ipynb). **It takes** about 35 minutes."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after="Passed them all? Then go on with [what heads learn](13_exercises.ipynb).",
    exercises=(
        window_with_sinks.EXERCISE,
        rolling_slot.EXERCISE,
        earliest_token.EXERCISE,
        latent_cache_bytes.EXERCISE,
        absorb_value_projection.EXERCISE,
        flat_slot.EXERCISE,
    ),
    blanks=(
        round_to_bits.EXERCISE,
        window_mask.EXERCISE,
        sink_weights.EXERCISE,
        latent_queries.EXERCISE,
        gather_blocks.EXERCISE,
    ),
)
