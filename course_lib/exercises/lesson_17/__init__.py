"""Exercises of lesson 17: write it yourself."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    gpt_parameters,
    layer_norm,
    multi_head_from_memory,
    multi_query_with_cache,
    next_token_loss,
    rotary_multi_query,
    through_block,
    top_k_probabilities,
    training_loop,
    with_temperature,
    write_greedily,
)

SET = ExerciseSet(
    title="write it yourself",
    intro=(
        "You will write the pieces of a small GPT that the lesson took from PyTorch or left out: the loss, the "
        "normalization, two ways to choose the next token, the number of parameters of a configuration, and, as a "
        "last look back, multi-head attention, and your class with a cache once more, now with a rotation.\n\n"
        "**You need** [lesson 17](../17_capstone.ipynb). **It takes** about 40 minutes. Nothing is trained, "
        "but the loss must be ready for it: its gradients are compared, too."
    ),
    imports="""\
import torch
from torch import nn

from course_lib.exercises import check, from_earlier, progress, review

rotary_table = from_earlier("rotary_table")
rotate = from_earlier("rotate")""",
    after=(
        "Passed them all? Then put them in: your LayerNorm into the lesson's block, your loss into its loop, and "
        "your ways to choose a token into its `write`. The story should stay the same."
    ),
    exercises=(
        next_token_loss.EXERCISE,
        layer_norm.EXERCISE,
        with_temperature.EXERCISE,
        top_k_probabilities.EXERCISE,
        gpt_parameters.EXERCISE,
        multi_head_from_memory.EXERCISE,
        rotary_multi_query.EXERCISE,
    ),
    blanks=(
        multi_query_with_cache.EXERCISE,
        through_block.EXERCISE,
        write_greedily.EXERCISE,
        training_loop.EXERCISE,
    ),
)
