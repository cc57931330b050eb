"""Exercises of lesson 12: packed texts, caps, norms, gates, shared layers and selected keys."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    capped_weights,
    gated_context,
    index_scores,
    kv_layers,
    norm_heads,
    packed_gap,
    packed_mask,
    packed_targets,
    restarted_positions,
    selected_attention,
    shared_layers,
)

SET = ExerciseSet(
    title="the forms of 2026",
    intro=(
        "You will pack texts for training, put a gate on each head, find out whose keys a layer reads, and write the "
        "indexer that selects them.\n\n"
        "**You need** [lesson 12](../12_forms_of_2026.ipynb). **It takes** about 25 minutes."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after="Passed them all? Then go on with [what heads learn](13_exercises.ipynb).",
    exercises=(
        restarted_positions.EXERCISE,
        packed_targets.EXERCISE,
        gated_context.EXERCISE,
        kv_layers.EXERCISE,
        index_scores.EXERCISE,
    ),
    blanks=(
        packed_mask.EXERCISE,
        packed_gap.EXERCISE,
        capped_weights.EXERCISE,
        norm_heads.EXERCISE,
        shared_layers.EXERCISE,
        selected_attention.EXERCISE,
    ),
)
