"""Exercises of lesson 10: what heads learn."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    ablate_head,
    comes_after_copy,
    induction_score,
    known_accuracy,
    mean_ablate,
    patch_head,
    previous_token_score,
    sink_weight,
    weight_before_by_place,
)

SET = ExerciseSet(
    title="what heads learn",
    intro=(
        "You will measure what a model gets right and where its heads look, take a head away in two ways, and exchange "
        "what it found by that of another run.\n\n"
        "**You need** [lesson 10](../10_what_heads_learn.ipynb). **It takes** about half an hour. Nothing is trained: "
        "each function gets the numbers of a model, and all attention weights are causal, so that a weight on a later "
        "token is 0."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after="Passed them all? [Lesson 11](../11_fast.ipynb) counts what attention costs.",
    exercises=(
        known_accuracy.EXERCISE,
        weight_before_by_place.EXERCISE,
        ablate_head.EXERCISE,
        mean_ablate.EXERCISE,
        patch_head.EXERCISE,
        sink_weight.EXERCISE,
    ),
    blanks=(previous_token_score.EXERCISE, comes_after_copy.EXERCISE, induction_score.EXERCISE),
)
