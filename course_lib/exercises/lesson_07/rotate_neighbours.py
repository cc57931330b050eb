"""Rotate pairs of neighbours, as Meta's files do."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise

from .rotate import rotate  # noqa: F401  a wrong answer calls it


def rotate_neighbours(x, cos, sin):
    # (b, h, token, head_dim), 2 x (token, pair) -> (b, h, token, head_dim)
    first, second = x[..., 0::2], x[..., 1::2]  # each (b, h, t, pair)
    rotated = first * cos - second * sin, second * cos + first * sin
    # (b, h, t, pair, 2) -> (b, h, t, head_dim): the two of a pair side by side again
    return torch.stack(rotated, dim=-1).flatten(-2)


EXERCISE = FunctionExercise(
    rotate_neighbours,
    title="Rotate pairs of neighbours",
    difficulty=2,
    minutes=8,
    prompt=(
        "Some models, Meta's own Llama files among them, pair neighbours: elements 0 and 1 are pair 0, elements 2 and "
        "3 are pair 1, and so on. `cos` and `sin` hold one angle per token and pair. Rotate each pair (a, b) of `x` to "
        "(a cos - b sin, b cos + a sin), and put the rotated elements where a and b were."
    ),
    hints=(
        "A slice with a step of 2 takes all first elements: `x[..., 0::2]`. Where do the second ones begin?",
        "The rotated pairs have to be interleaved again. Stack the two results on a new last axis, (pair, 2).",
        "`torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)`.",
    ),
    inputs={
        "x": "batch head token 2*pair",
        "angle": "token pair",
        "cos": lambda angle: (2 * angle).cos(),
        "sin": lambda angle: (2 * angle).sin(),
    },
    calls=2,
    also=({"head": 1},),
    arguments={"x": "batch head token head_dim", "cos": "token pair", "sin": "token pair"},
    axes="batch head token head_dim",
    fixed="head_dim pair",
    wrong="""
rotate(x, cos, sin)
    pairs of halves, as in the lesson
    ? Which element is paired with element 0 in this task?
-1 => -2
    pairs of neighbours that are put back as halves
    ? Where did the second element of pair 0 come from, and where is it in your result?
right(x, cos, -sin)
    a rotation in the other direction, by the negative angles
    ? Which of the two has the minus sign?
stack(rotated => stack(rotated[::-1]
    the two elements of each pair exchanged
    ? In which order are the two stacked?
rotated = first * cos - second * sin, => first = first * cos - second * sin; rotated = first,
    pairs of which the second elements were made of first elements that had been rotated already
    ? Does the line for b read a as it came in, or as the line before has left it?
-2 => -1
    the rotated pairs on an axis of their own; the last axis should be head_dim again
    ? Which shape did x have?
right(x, sin, cos)
    a rotation with cosines and sines exchanged
    ? What should come out for angle 0, where cos is 1 and sin is 0?
""",
)
