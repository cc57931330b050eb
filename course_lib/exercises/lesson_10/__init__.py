"""Exercises of lesson 10: fewer bits, windows, sinks and a rolling cache."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    earliest_token,
    mended_ring,
    my_rolling_cache,
    rolling_slot,
    round_to_bits,
    sink_weights,
    streaming_scores,
    window_mask,
    window_probe,
    window_with_sinks,
)

SET = ExerciseSet(
    title="smaller caches",
    intro=(
        "You will write the mask of a window with attention sinks, compute how far windows reach through a stack of "
        "layers, count positions within a cache, find a mistake in a rolling cache, and write the test that catches a "
        "wrong window.\n\n"
        "**You need** [lesson 10](../10_smaller_caches.ipynb). **It takes** about 35 minutes."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after="Passed them all? Then go on with [latent attention, and pages](11_exercises.ipynb).",
    exercises=(
        window_with_sinks.EXERCISE,
        earliest_token.EXERCISE,
        streaming_scores.EXERCISE,
        mended_ring.EXERCISE,
        window_probe.EXERCISE,
    ),
    blanks=(
        round_to_bits.EXERCISE,
        window_mask.EXERCISE,
        sink_weights.EXERCISE,
        rolling_slot.EXERCISE,
        my_rolling_cache.EXERCISE,
    ),
)
