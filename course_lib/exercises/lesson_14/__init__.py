"""Exercises of lesson 14: write it yourself."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    cut_batch,
    gpt_parameters,
    layer_norm,
    multi_head_from_memory,
    multi_query_with_cache,
    next_token_loss,
    top_k_probabilities,
    with_temperature,
    write_greedily,
)

SET = ExerciseSet(
    title="write it yourself",
    intro=(
        "You will write the pieces of a small GPT that the lesson took from PyTorch or left out: the loss, the "
        "normalization, two ways to choose the next token, and the number of parameters of a configuration.\n\n"
        "**You need** [lesson 14](../14_capstone.ipynb). **It takes** about half an hour. Nothing is trained, "
        "but the loss must be ready for it: its gradients are compared, too."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after=(
        "Passed them all? Then attention, the loss, the normalization and the choice of the next token are your own. "
        "The lesson gave you the embedding, the block and the training loop: write those, too, and nothing is left."
    ),
    exercises=(
        next_token_loss.EXERCISE,
        layer_norm.EXERCISE,
        with_temperature.EXERCISE,
        top_k_probabilities.EXERCISE,
        gpt_parameters.EXERCISE,
    ),
    blanks=(
        multi_head_from_memory.EXERCISE,
        multi_query_with_cache.EXERCISE,
        cut_batch.EXERCISE,
        write_greedily.EXERCISE,
    ),
)
