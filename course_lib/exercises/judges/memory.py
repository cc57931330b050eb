"""Slots and strides."""

from __future__ import annotations

import torch
from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


def _number_at(memory: Tensor, strides: tuple[int, ...], index: tuple[int, ...]) -> Tensor:
    return memory[sum(stride * at for stride, at in zip(strides, index, strict=True))]


NUMBER_AT = FunctionJudge(
    reference=_number_at,
    inputs=lambda: [
        (numbers(24), (24, 2, 4, 1), (0, 1, 3, 1)),
        (numbers(210), (105, 7, 21, 1), (1, 2, 4, 5)),
        (numbers(40), (1, 8), (3, 4)),
    ],
    wrong=(
        Wrong(
            "the number at the sum of the index, as if every step were one slot",
            lambda m, strides, index: m[sum(index)],
            hint="How many slots does one step along an axis skip?",
        ),
        Wrong(
            "the number at the sum of the strides, whatever the index",
            lambda m, strides, index: m[sum(strides) % len(m)],
            hint="How often is each stride taken?",
        ),
        Wrong(
            "the number that stands there if the strides are read from the right",
            lambda m, strides, index: m[sum(a * b for a, b in zip(strides[::-1], index, strict=True)) % len(m)],
            hint="Which stride belongs to the first axis?",
        ),
        Wrong(
            "the number one slot further on: slots are counted from 0",
            lambda m, strides, index: m[(sum(a * b for a, b in zip(strides, index, strict=True)) + 1) % len(m)],
        ),
        Wrong(
            "the number that stands there if the axes are read in the order in which they lie, largest stride first",
            lambda m, strides, index: _number_at(m, tuple(sorted(strides, reverse=True)), index),
            hint="Were the strides in order of size before you touched them?",
        ),
        Wrong(
            "the slot, not the number in it",
            lambda m, strides, index: sum(a * b for a, b in zip(strides, index, strict=True)),
            hint="You know where it lies. What lies there?",
        ),
    ),
    see=lambda result, *_: result.item() if isinstance(result, Tensor) and result.numel() == 1 else result,
)


def _contiguous(*shape: int) -> tuple[int, ...]:
    return torch.empty(shape, device="meta").stride()


STRIDES_BY_HEAD = FunctionJudge(
    reference=lambda t, h, d: (t * h * d, d, h * d, 1),
    inputs=lambda: [(5, 3, 7), (6, 2, 4)],
    wrong=(
        Wrong(
            "the strides before the transpose: (batch, token, head, head_dim)",
            lambda t, h, d: (t * h * d, h * d, d, 1),
            hint="What does `transpose(1, 2)` do to the strides?",
        ),
        Wrong(
            "the strides of a fresh tensor of that shape, as if the numbers had moved",
            lambda t, h, d: _contiguous(1, h, t, d),
            hint="Does `transpose` move a single number?",
        ),
        Wrong(
            "the strides with the last two axes exchanged",
            lambda t, h, d: (t * h * d, d, 1, h * d),
            hint="Which two axes does `transpose(1, 2)` exchange?",
        ),
        Wrong("the shape; the strides say how many slots a step skips", lambda t, h, d: (1, h, t, d)),
        Wrong(
            "the strides in bytes; PyTorch counts them in numbers", lambda t, h, d: (8 * t * h * d, 8 * d, 8 * h * d, 8)
        ),
        Wrong("the strides in bytes of 32-bit numbers", lambda t, h, d: (4 * t * h * d, 4 * d, 4 * h * d, 4)),
        Wrong(
            "strides whose head skips a whole token: a token's heads lie side by side",
            lambda t, h, d: (t * h * d, h * d, h * d, 1),
            hint="How far is head 1 of a token from head 0 of the same token?",
        ),
        Wrong(
            "strides whose token skips one head only",
            lambda t, h, d: (t * h * d, d, d, 1),
            hint="How far is head 0 of the next token?",
        ),
        Wrong("the strides without the batch", lambda t, h, d: (d, h * d, 1)),
    ),
)
