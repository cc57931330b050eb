"""What the attention weights of each query add up to."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def row_sums(weights):  # (query, key) -> (query)
    return weights.sum(dim=1)


def _draw(rng: InputGenerator) -> list[Case]:
    return [Case((rng.normal(queries, keys),)) for queries, keys in rng.size_rows(3, 2, 3, 9)]


EXERCISE = FunctionExercise(
    row_sums,
    title="The sum of each row",
    difficulty=1,
    minutes=1,
    prompt="A table of numbers in, the sum of each row out.",
    hints=("`weights.sum(dim=...)` adds up along one axis.", "The keys are axis 1 of (query, key)."),
    draw=_draw,
    arguments={"weights": "query key"},
    axes="query",
    wrong=(
        Wrong(
            "the sum of each column",
            lambda w: w.sum(0),
            hint="Which axis remains if you add up along axis 0, the rows or the columns?",
        ),
        Wrong("the sum of the whole table", lambda w: w.sum(), hint="How many rows are there, and how many sums?"),
        Wrong("the mean of each row instead of its sum", lambda w: w.mean(1), hint="What does a mean divide by?"),
        Wrong("the largest number of each row", lambda w: w.amax(1), hint="What does a sum add up?"),
    ),
)
