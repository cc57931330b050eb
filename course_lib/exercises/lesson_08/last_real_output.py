"""The output of each sample's last real token."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def last_real_output(outputs, lengths):
    # (batch, token, width), (batch) of int64 -> (batch, width)
    samples = torch.arange(len(outputs), device=outputs.device)  # (batch)
    return outputs[samples, lengths - 1]  # one token of each sample


def _lengths(rng: InputGenerator, batch: int, token: int) -> Tensor:
    lengths = 1 + rng.integers(token - 1, batch)
    lengths[:3] = torch.tensor([token, 1, 2])
    return lengths


EXERCISE = FunctionExercise(
    last_real_output,
    title="The last real word of each sentence",
    difficulty=2,
    minutes=5,
    prompt=(
        "A batch is padded on the right: sample b holds `lengths[b]` real tokens, and padding after them. What a "
        "model says about the next word is in the output of the last real token. Return that output for each sample, "
        "(batch, width). Every length is at least 1."
    ),
    hints=(
        "Column -1 of the batch is padding in every sample but the longest. In which column is the last real token?",
        "It is in column `lengths[b] - 1`, because columns count from 0. Two index tensors side by side choose one "
        "token per sample.",
        "`outputs[torch.arange(len(outputs)), lengths - 1]`.",
    ),
    inputs={"lengths": _lengths},
    calls=4,
    draw_edges=({"lengths": lambda rng, batch, token: 1 + rng.integers(token - 1, batch)},),  # the batch is longer
    arguments={"outputs": "batch token width", "lengths": "batch"},
    axes="batch width",
    fixed="token",
    gradients=("outputs",),
    wrong="""
outputs[:, -1]
    the last column of the batch, which is padding in the shorter samples
    ? What does the last column hold in a sample that is shorter than the longest?
(outputs * (torch.arange(outputs.shape[1]) < lengths[:, None])[..., None])[:, -1]
    the last column of the batch, with what is padding set to 0
    ? In which column is the last real token of a sample that is shorter than the longest?
outputs[:, 0]
    the first token of each sample
    ? Which token has seen all the others of its sentence?
real = torch.arange(outputs.shape[1]) < lengths[:, None]; return (outputs * real[..., None]).sum(1) / lengths[:, None]
    the mean over the real tokens
    ? Is one token asked for, or all of them?
outputs.sum(1)
    the sum over all tokens, padding included
    ? Is one token asked for, or all of them?
outputs[:, lengths - 1]
    a table of all samples by all lengths: each sample was asked for the last token of every sample
    ? Your index has a `:` for the batch, so every sample gets every length. What should stand there?
1 => 2
    the token before the last real one (in a sample of one token, the last column)
    ? In which column is the last token of a sentence of two words?
outputs[torch.arange(len(outputs)), lengths.clamp(max=outputs.shape[1] - 1)]
    the token after the last real one, and the last column where there is none
    ? In which column is the last token of a sentence of two words, if columns count from 0?
outputs[torch.arange(len(outputs)), -lengths]
    a token counted from the end of the batch, where the padding is
    ? From which end does a negative index count?
""",
)
