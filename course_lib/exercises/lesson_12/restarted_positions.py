"""Positions in a row of several texts."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def restarted_positions(lengths):  # list of ints -> (token), integers
    return torch.cat([torch.arange(length) for length in lengths])


EXERCISE = FunctionExercise(
    restarted_positions,
    title="Positions of packed texts",
    difficulty=1,
    minutes=3,
    prompt=(
        "A row holds several texts, one after the other, of `lengths` tokens each. Return the position of each token "
        "of the row in its own text: 0, 1, ... and 0 again where the next text begins."
    ),
    hints=(
        "The positions of one text are `torch.arange(length)`.",
        "`torch.cat` joins a list of tensors along the first axis.",
    ),
    inputs={"lengths": lambda rng, count: [*rng.sizes(count, 1, count + 4)]},
    calls=4,
    draw_edges=({"lengths": [1]}, {"lengths": [1, 1, 30]}),
    axes="token",
    wrong="""
torch.arange(sum(lengths))
    positions that run on through all texts
    ? Which position has the first token of the second text?
result + 1
    positions that begin at 1
    ? Which position has the first token of a text?
torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    the number of the text in place of the position in it
    ? Of lengths [3, 2]: which positions have the first three tokens?
torch.arange(sum(lengths)) % lengths[0]
    positions that begin again after the length of the first text, over and over
    ? Where does the third text begin?
""",
)
