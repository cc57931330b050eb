"""Which number lies where."""

from __future__ import annotations

import math
from itertools import pairwise

from torch import Tensor

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def number_at(memory, strides, index):
    # (slot), tuple of ints, tuple of ints of the same length -> one number
    slot = sum(stride * step for stride, step in zip(strides, index, strict=True))
    return memory[slot]


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    # Ten calls, because two wrong formulas may give the same index by chance.
    for axes in rng.shuffled((2, 2, 3, 3, 3, 4, 4, 4, 4, 4)):
        shape = rng.sizes(axes, 2, 7)
        strides = [math.prod(shape[axis + 1 :]) for axis in range(axes)]
        order = rng.shuffled(range(axes))
        while all(strides[axis] > strides[next_axis] for axis, next_axis in pairwise(order)):  # nothing transposed
            order = rng.shuffled(range(axes))
        index = tuple(1 + rng.integer(shape[axis] - 1) for axis in order)
        cases.append(Case((rng.normal(math.prod(shape)), tuple(strides[axis] for axis in order), index)))
    return cases


EXERCISE = FunctionExercise(
    number_at,
    title="Which number lies where",
    difficulty=2,
    minutes=4,
    prompt=(
        "A tensor is a row of slots and a stride for each axis. Do what PyTorch does when you index: find the number."
    ),
    hints=(
        "A stride says how many slots one step along its axis skips.",
        "Take each index times its stride and add them up: that is the slot.",
        "`zip(strides, index)` walks through both; `memory[slot]` is the number.",
    ),
    draw=_draw,
    least={"strides": 0},
    wrong="""
stride * step => step
    the number at the sum of the index, as if every step were one slot
    ? How many slots does one step along an axis skip?
stride * step => stride
    the number at the sum of the strides, whatever the index
    ? How often is each stride taken?
memory[sum((a * b for a, b in zip(strides[::-1], index, strict=True))) % len(memory)]
    the number that stands there if the strides are read from the right
    ? Which stride belongs to the first axis?
memory[(sum((a * b for a, b in zip(strides, index, strict=True))) + 1) % len(memory)]
    the number one slot further on: slots are counted from 0
right(memory, sorted(strides, reverse=True), index)
    the number that stands there if the axes are read in the order in which they lie, largest stride first
    ? Were the strides in order of size before you touched them?
sum((a * b for a, b in zip(strides, index, strict=True)))
    the slot, not the number in it
    ? You know where it lies. What lies there?
""",
    extract=lambda result, *_: result.item() if isinstance(result, Tensor) and result.numel() == 1 else result,
)
