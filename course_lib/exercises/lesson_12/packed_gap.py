"""The proof that packing changes nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

LAYER = """
import torch

def make_layer(weight):  # attention whose scores and values depend on the positions, too
    def layer(x, keep=None, positions=None):
        num_tokens = x.shape[1]
        keep = torch.ones(num_tokens, num_tokens).tril() > 0 if keep is None else keep
        x = x + (torch.arange(num_tokens) if positions is None else positions)[:, None] / 4
        return (x @ weight @ x.mT).masked_fill(~keep, -torch.inf).softmax(dim=-1) @ x
    return layer
"""


def packed_gap(layer, row, lengths, keep, positions):
    # layer, (batch, token, width), ints, (query, key) bool, (token) ints -> one number
    alone = torch.cat([layer(text) for text in row.split(lengths, dim=1)], dim=1)
    packed = layer(row, keep=keep, positions=positions)
    return (packed - alone).abs().max()


def _right_mask(lengths: list[int]) -> Tensor:
    return torch.block_diag(*[torch.ones(length, length).tril() for length in lengths]) > 0


def _some_mask(rng: InputGenerator, lengths: list[int]) -> Tensor:
    keep = (rng.normal(sum(lengths), sum(lengths)) > 0).tril()
    return keep.fill_diagonal_(True)


def _restarted(lengths: list[int]) -> Tensor:
    return torch.cat([torch.arange(length) for length in lengths])


def _moved_first(lengths: list[int]) -> Tensor:
    positions = _restarted(lengths)
    positions[: lengths[0]] += 5
    return positions


EXERCISE = FunctionExercise(
    packed_gap,
    title="Packed as alone?",
    difficulty=2,
    minutes=3,
    prompt=(
        "A proof that packing changes nothing. `row`, (batch, token, width), holds several texts, of `lengths` tokens "
        "each. `layer(text)` gives the output of one text alone, and "
        "`layer(row, keep=keep, positions=positions)` that of the whole row. Return one number: how far the farthest "
        "output of the row is from that of the same token in its text alone, 0 if packing changes nothing."
    ),
    hints=(
        "`row.split(lengths, dim=1)` are the texts. What does the layer make of each of them?",
        "`torch.cat` joins the outputs of the texts along the tokens. Then compare with the output of the row: "
        "`(packed - alone).abs().max()`.",
    ),
    inputs={
        "layer": lambda rng, width: FromSource(LAYER, "make_layer", (rng.normal(width, width, std=0.3),)),
        "lengths": lambda rng, count: [*rng.sizes(count, 1, count + 4)],
        "row": lambda rng, batch, lengths, width: rng.normal(batch, sum(lengths), width),
        "keep": _some_mask,
        "positions": lambda rng, lengths: rng.integers(9, sum(lengths)),
    },
    calls=4,
    special={
        "mask and positions are right, so that nothing differs": {"keep": _right_mask, "positions": _restarted},
        "the positions run on and the mask is right": {"keep": _right_mask, "positions": None},
        "the positions are right and the mask is missing": {"keep": None, "positions": _restarted},
        "the mask is right, and so are the positions of all texts but the first": {
            "keep": _right_mask,
            "positions": _moved_first,
        },
    },
    extract=lambda result, *_: result.item() if isinstance(result, Tensor) and result.dim() == 0 else result,
    wrong="""
.abs().max() => .max()
    the largest difference with its sign: outputs that are too small aren't seen
    ? What does your proof say if each output is too small by 3?
.abs().max() => .abs().mean()
    the mean of all differences; asked for is the largest
    ? What becomes of one wrong token among thousands of right ones?
(packed - alone).abs().max() => (packed - alone)[:, -lengths[-1]:].abs().max()
    the difference in the last text alone
    ? Which texts does your proof look at?
(packed - alone).abs().max() => (packed - alone)[:, : lengths[0]].abs().max()
    the difference in the first text alone: no text stands before it
    ? Which texts does your proof look at?
(packed - alone).abs().max() => (packed - alone)[:, (len(lengths) > 1) * lengths[0] :].abs().max()
    the difference in all texts but the first
    ? Where could the first text of a row be off, too?
(packed - alone).abs().max() => (packed - alone)[:1].abs().max()
    the difference in the first sample alone
    ? Which samples does your proof look at?
keep=keep, positions=positions => keep=keep
    a row whose positions run on, whatever `positions` is
    ? Where do you use `positions`?
keep=keep, positions=positions => positions=positions
    a row without its mask
    ? Where do you use `keep`?
torch.cat([layer(text) for text in row.split(lengths, dim=1)], dim=1) => layer(row)
    the row compared with itself, without the mask
    ? Is any text alone in your proof?
torch.cat([layer(text) for text in row.split(lengths, dim=1)], dim=1) => torch.cat([layer(text) for text in row.split(max(lengths), dim=1)], dim=1)
    texts that are all as long as the longest
    ? Where does the second text begin?
""",
)
