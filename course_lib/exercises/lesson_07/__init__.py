"""Exercises of lesson 07: rotary positions, padding and cross-attention."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    cross_attention,
    last_real_output,
    my_rotary_attention,
    real_positions,
    rotary_table,
    rotate,
    rotate_neighbours,
    scores_by_distance,
    tokens_per_turn,
)

SET = ExerciseSet(
    title="order, padding and two sequences",
    intro=(
        "You will work with rotary positions: how far a pair turns, what a score makes of a distance, and pairs of "
        "neighbours instead of halves. Then you will find the last word of each sentence in a padded batch, and let "
        "one sentence attend to another.\n\n"
        "**You need** [lesson 07](../07_order.ipynb). **It takes** about 30 minutes. Unless an "
        "exercise says something else, the two elements of pair i are those with index i and i + pairs, the two "
        "halves of a head, as in the lesson and in the Llama of `transformers`."
    ),
    imports="""\
import torch

from course_lib.exercises import check, from_earlier, progress, review

rotary_table = from_earlier("rotary_table")
rotate = from_earlier("rotate")""",
    after="Passed them all? [Lesson 09](../09_llama.ipynb) builds Llama's attention from these pieces.",
    exercises=(
        tokens_per_turn.EXERCISE,
        scores_by_distance.EXERCISE,
        rotate_neighbours.EXERCISE,
        last_real_output.EXERCISE,
        cross_attention.EXERCISE,
    ),
    blanks=(rotary_table.EXERCISE, rotate.EXERCISE, my_rotary_attention.EXERCISE, real_positions.EXERCISE),
)
