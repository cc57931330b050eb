"""Exercises of lesson 07: positions."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    alibi_bias,
    diagonal_range,
    my_rotary_attention,
    rotary_table,
    rotate,
    rotate_neighbours,
    scores_by_distance,
    tokens_per_turn,
)

SET = ExerciseSet(
    title="order",
    intro=(
        "You will work with rotary positions: how far a pair turns, what a score makes of a distance, and pairs of "
        "neighbours instead of halves. You will write the test that catches a wrong rotation, and the bias that some "
        "models have in its place.\n\n"
        "**You need** [lesson 07](../07_order.ipynb). **It takes** about 30 minutes. Unless an "
        "exercise says something else, the two elements of pair i are those with index i and i + pairs, the two "
        "halves of a head, as in the lesson and in the Llama of `transformers`."
    ),
    imports="""\
import torch

from course_lib.exercises import check, from_earlier, progress, review

rotary_table = from_earlier("rotary_table")
rotate = from_earlier("rotate")""",
    after="Passed them all? [Lesson 08](../08_padding.ipynb) gives each text of a batch its own positions.",
    exercises=(
        tokens_per_turn.EXERCISE,
        scores_by_distance.EXERCISE,
        rotate_neighbours.EXERCISE,
        diagonal_range.EXERCISE,
        alibi_bias.EXERCISE,
    ),
    blanks=(rotary_table.EXERCISE, rotate.EXERCISE, my_rotary_attention.EXERCISE),
)
