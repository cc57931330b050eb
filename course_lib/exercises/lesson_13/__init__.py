"""Exercises of lesson 13: what heads learn."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    ablate_head,
    comes_after_copy,
    exchange,
    holds_next_word,
    induction_score,
    mean_weight_on,
    my_open_attention,
    patch,
    patch_head,
    previous_token_score,
    replace_by_mean,
    sink_weight,
)

SET = ExerciseSet(
    title="what heads learn",
    intro=(
        "You will measure the habits for which heads are best known, remove a head from a layer's output, and exchange "
        "what it found by that of another run.\n\n"
        "**You need** [lesson 13](../13_what_heads_learn.ipynb). **It takes** about 25 minutes. Nothing is trained: "
        "each function gets the numbers of a model, and all attention weights are causal, so that a weight on a later "
        "token is 0."
    ),
    imports="""\
import torch
import torch.nn.functional as F

from course_lib.exercises import check, progress, review""",
    after="Passed them all? [Lesson 14](../14_fast.ipynb) counts what attention costs.",
    exercises=(
        previous_token_score.EXERCISE,
        comes_after_copy.EXERCISE,
        induction_score.EXERCISE,
        sink_weight.EXERCISE,
        ablate_head.EXERCISE,
        patch_head.EXERCISE,
    ),
    blanks=(
        holds_next_word.EXERCISE,
        mean_weight_on.EXERCISE,
        my_open_attention.EXERCISE,
        replace_by_mean.EXERCISE,
        patch.EXERCISE,
        exchange.EXERCISE,
    ),
)
