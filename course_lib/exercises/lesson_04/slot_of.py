"""The slot of an element."""

from __future__ import annotations

import math

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def slot_of(strides, index):  # two tuples of ints of the same length -> int
    return sum(stride * steps for stride, steps in zip(strides, index, strict=True))


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for axes in rng.shuffled((2, 3, 4, 4, 4, 3)):
        shape = rng.sizes(axes, 3, 9)
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(axes))
        order = (0, 2, 1, 3)[:axes] if axes > 2 else (1, 0)
        index = tuple(1 + rng.integer(shape[axis] - 1) for axis in order)
        cases.append(Case((tuple(strides[axis] for axis in order), index)))
    return cases


EXERCISE = FunctionExercise(
    slot_of,
    title="The slot of an element",
    difficulty=1,
    minutes=3,
    prompt=(
        "A stride per axis, and an index per axis. In which slot of the memory is the element? The tensor begins in "
        "slot 0."
    ),
    hints=("One step along an axis skips as many slots as its stride says.", "Multiply pairwise and add up."),
    draw=_draw,
    wrong="""
sum(index)
    the sum of the index, as if every step were one slot
stride * steps => stride
    the sum of the strides, whatever the index
right(strides[::-1], index)
    the slot if the strides are read from the right
    ? Which stride belongs to the first axis?
result + 1
    the slot after it; slots are counted from 0
math.prod(strides) * math.prod(index)
    the product of all strides and indices; steps along several axes add up
right(strides[:-1], index[:-1])
    the slot without the steps along the last axis
    ? Which of the axes does your sum reach?
""",
)
