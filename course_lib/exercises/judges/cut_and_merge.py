"""Heads cut out of one tensor and put back."""

from __future__ import annotations

import torch
from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


def _split(x: Tensor, num_heads: int) -> Tensor:
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


SPLIT_HEADS = FunctionJudge(
    reference=_split,
    inputs=lambda: [(numbers(2, 5, 21), 3), (numbers(3, 4, 10), 2)],
    axes="batch head token head_dim",
    wrong=(
        Wrong(
            "a view straight to the shape: the heads hold whole tokens",
            lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
            "split-without-transpose",
        ),
        Wrong(
            "the heads with every h-th number; a head's numbers lie side by side",
            lambda x, h: x.unflatten(2, (-1, h)).permute(0, 3, 1, 2),
            hint="In which order do heads and head_dim stand in the view: who is the outer one?",
        ),
        Wrong(
            "the fence without the move: (batch, token, head, head_dim)",
            lambda x, h: x.unflatten(2, (h, -1)),
            hint="Which axis must come to the front, so that each head is a table of tokens?",
        ),
        Wrong(
            "the heads with their last two axes exchanged: (batch, head, head_dim, token)",
            lambda x, h: _split(x, h).transpose(2, 3),
            hint="Which axes did you exchange? The keys need this later, not now.",
        ),
        Wrong("the heads in reverse order", lambda x, h: _split(x, h).flip(1)),
        Wrong(
            "the tokens cut into groups instead of the width",
            lambda x, h: torch.stack(x.tensor_split(h, dim=1)[:h], 1),
            hint="Along which axis do the heads lie?",
        ),
        Wrong("a list of heads as a tensor: (head, batch, token, head_dim)", lambda x, h: _split(x, h).transpose(0, 1)),
        Wrong(
            "the transpose before the fence: (batch, width, token) was cut",
            lambda x, h: x.transpose(1, 2).reshape(len(x), h, x.shape[1], -1),
            "split-without-transpose",
        ),
    ),
)


def _merge(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(1), dim=-1)


MERGE_HEADS = FunctionJudge(
    reference=_merge,
    inputs=lambda: [(numbers(2, 3, 5, 7),), (numbers(3, 2, 4, 5),)],
    axes="batch token width",
    wrong=(
        Wrong(
            "a reshape without the transpose: a row holds several tokens of one head",
            lambda x: x.reshape(len(x), x.shape[2], -1),
            "merge-without-transpose",
        ),
        Wrong(
            "the numbers of the heads in turn; those of one head should stay together",
            lambda x: x.permute(0, 2, 3, 1).flatten(2),
            hint="In which order stand head and head_dim before you join them?",
        ),
        Wrong("the mean of the heads", lambda x: x.mean(1), "heads-averaged"),
        Wrong("the sum of the heads", lambda x: x.sum(1), "heads-averaged"),
        Wrong("the heads in reverse order", lambda x: _merge(x.flip(1))),
        Wrong(
            "the transpose without the join: (batch, token, head, head_dim)",
            lambda x: x.transpose(1, 2),
            hint="The axes are in the right order. Which two are neighbours now, to become one?",
        ),
        Wrong("the first head alone", lambda x: x[:, 0]),
        Wrong("the heads one below the other", lambda x: x.flatten(1, 2), hint="How many rows should a sample have?"),
    ),
)
