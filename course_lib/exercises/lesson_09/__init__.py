"""Exercises of lesson 09: Llama's attention and its cache."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    append_to_cache,
    greedy_decode,
    my_cache,
    my_llama_attention,
    next_positions,
    next_word,
    permute_meta_weights,
    rewind_cache,
)

SET = ExerciseSet(
    title="Llama's attention and its cache",
    intro=(
        "You will let a cache grow and take tokens back, find the positions of new tokens, write word after word, and "
        "bring the rows of a published file into the order that your code expects.\n\n"
        "**You need** [lesson 09](../09_llama.ipynb). **It takes** about twenty-five minutes."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after="Passed them all? [Lesson 10](../10_smaller_caches.ipynb) makes the cache smaller still.",
    exercises=(
        append_to_cache.EXERCISE,
        rewind_cache.EXERCISE,
        next_positions.EXERCISE,
        greedy_decode.EXERCISE,
        permute_meta_weights.EXERCISE,
    ),
    blanks=(my_llama_attention.EXERCISE, my_cache.EXERCISE, next_word.EXERCISE),
)
