"""Exercises of lesson 06: shared keys and values."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    cache_bytes,
    cached_attention,
    decode_step,
    grouped_query,
    grouped_query_with_gaps,
    kv_head_of,
    multi_query,
    multi_query_module,
    my_multi_query_attention,
    pool_heads,
    share_heads,
)

SET = ExerciseSet(
    title="shared keys and values",
    intro=(
        "You will write multi-query and grouped-query attention as classes, hand shared heads out, turn trained "
        "matrices into shared ones, and give a class a cache. The class at the end begins with an empty "
        "cell.\n\n"
        "**You need** [lesson 06](../06_multi_query.ipynb). **It takes** about 65 minutes."
    ),
    imports="""\
import torch
from torch import nn

from course_lib.exercises import check, progress, review""",
    after=(
        "Passed them all? Then try to find mistakes in the code of others: [the exercises on "
        "debugging](15_exercises.ipynb)."
    ),
    exercises=(
        multi_query_module.EXERCISE,
        share_heads.EXERCISE,
        pool_heads.EXERCISE,
        grouped_query_with_gaps.EXERCISE,
        grouped_query.EXERCISE,
        cached_attention.EXERCISE,
    ),
    blanks=(
        multi_query.EXERCISE,
        my_multi_query_attention.EXERCISE,
        kv_head_of.EXERCISE,
        cache_bytes.EXERCISE,
        decode_step.EXERCISE,
    ),
)
