"""The first functions that a lesson asks for; lesson 00 has no exercise sheet."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import attend_by_likeness, blend_with_mean, embed_sentence, row_sums

SET = ExerciseSet(
    title="start here",
    intro="",
    imports="",
    after="",
    exercises=(),
    blanks=(embed_sentence.EXERCISE, blend_with_mean.EXERCISE, attend_by_likeness.EXERCISE, row_sums.EXERCISE),
)
