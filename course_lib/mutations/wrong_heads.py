"""The table of what goes wrong with heads: how they are split, shared, merged and projected."""

from collections.abc import Callable

import torch
from torch import Tensor

from .steps import RIGHT, masked
from .wrong_steps import WrongSteps

COLUMNS = "Head 0 reads which columns of the projection: the first head_dim, or every num_heads-th?"
NEIGHBOURS = "Which two axes have to be neighbours before a reshape joins them?"
IN_GROUPS = "Query head i reads kv head i // (num_heads // num_kv_heads). Does yours?"


def _view(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, x.shape[1], -1)


def _interleaved(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(2, (-1, heads)).permute(0, 3, 1, 2)


def _exchanged(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(2, (x.shape[2] // heads, -1)).transpose(1, 2)


def _reshape(context: Tensor) -> Tensor:
    return context.reshape(len(context), context.shape[2], -1)


def _in_turn(context: Tensor) -> Tensor:
    return context.permute(0, 2, 3, 1).flatten(2)


def _merged(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Merge the heads after a change that may leave one head, which then stands for all."""
    return lambda context: RIGHT.merge(change(context).expand_as(context))


SPLITS = (
    WrongSteps("heads cut by a view alone", "split-without-transpose", split=_view),
    WrongSteps("heads cut by a view alone, and put back so", "split-without-transpose", split=_view, merge=_reshape),
    WrongSteps("heads cut by a view in which num_heads and head_dim are exchanged", hint=COLUMNS, split=_exchanged),
    WrongSteps("heads put back by a reshape alone", "merge-without-transpose", merge=_reshape),
    WrongSteps("heads that hold every num_heads-th column", hint=COLUMNS, split=_interleaved),
    WrongSteps(
        "heads that hold every num_heads-th column, and are put back so",
        hint=COLUMNS,
        split=_interleaved,
        merge=_in_turn,
    ),
)
MERGES = (
    WrongSteps(
        "heads whose elements are put back in turn",
        "merge-without-transpose",
        "In which order do head and head_dim stand before you join them?",
        merge=_in_turn,
    ),
    WrongSteps(
        "heads put back after heads and head_dim changed places",
        hint=NEIGHBOURS,
        merge=lambda c: c.transpose(1, 3).reshape(len(c), c.shape[2], -1),
    ),
    WrongSteps(
        "heads put back by a reshape to (batch, d_out, token)",
        hint=NEIGHBOURS,
        merge=lambda c: c.reshape(len(c), -1, c.shape[2]).mT,
    ),
    *(
        WrongSteps(
            f"heads joined in another order, in which the {first} one comes first",
            hint="In which order does the output projection expect the heads?",
            merge=_merged(lambda c, shift=shift: c.roll(shift, 1)),
        )
        for shift, first in ((1, "last"), (-1, "second"))
    ),
    WrongSteps("heads in reverse order", hint="Which head comes first?", merge=_merged(lambda c: c.flip(1))),
)
EQUAL_HEADS = (
    WrongSteps(
        "heads that all use the weights of head 0",
        "heads-share-scores",
        weigh=lambda s, k: masked(s, k)[:, :1].expand_as(s),
    ),
    WrongSteps(
        "heads that all use the mean of the scores",
        "heads-share-scores",
        weigh=lambda s, k: masked(s.mean(1, keepdim=True), k).expand_as(s),
    ),
    *(
        WrongSteps(
            f"the {what} of the heads in the place of every head",
            "heads-averaged",
            merge=_merged(lambda c, reduce=reduce: reduce(c, 1, keepdim=True)),
        )
        for what, reduce in (("mean", torch.mean), ("sum", torch.sum))
    ),
    WrongSteps(
        "the output of head 0 in the place of every head",
        "heads-share-weights",
        "Which head does each turn of your loop, or each part of your result, come from?",
        merge=_merged(lambda c: c[:, :1]),
    ),
)
SHARED = (
    WrongSteps("kv heads in the order 0, 1, 0, 1", "kv-heads-tiled", share=lambda x, group: x.repeat(1, group, 1, 1)),
    WrongSteps(
        "kv head 0 for every query head",
        "kv-head-zero-only",
        share=lambda x, group: x[:, :1].expand(-1, group * x.shape[1], -1, -1),
    ),
    WrongSteps(
        "the kv heads in reverse order", hint=IN_GROUPS, share=lambda x, group: x.flip(1).repeat_interleave(group, 1)
    ),
    WrongSteps(
        "the mean of the kv heads for every query head",
        hint=IN_GROUPS,
        share=lambda x, group: x.mean(1, keepdim=True).expand(-1, group * x.shape[1], -1, -1),
    ),
)
OUTPUT = (
    WrongSteps(
        "the heads side by side, without W^O", "output-projection-missing", project=lambda merged, out_proj: merged
    ),
    WrongSteps(
        "the heads times W^O transposed",
        hint="`nn.Linear` keeps its matrix as (out, in). Which way round does your product use it?",
        project=lambda merged, out: merged @ (torch.eye(merged.shape[-1]) if out is None else out.mT),
    ),
)
VALUES = (WrongSteps("the values, unmixed", "weights-not-applied", apply=lambda weights, values: values),)


def other_head_counts(width: int, num_heads: int, written: Callable[[int], str]) -> tuple[WrongSteps, ...]:
    """Attention with another number of heads than a class was built with.

    Args:
        width: Of the queries over all heads.
        num_heads: What the class was built with.
        written: Writes a number of heads in words.
    """
    return tuple(
        WrongSteps(
            f"attention with {written(heads)}; the class was built with num_heads={num_heads}",
            hint="Where does the number of heads come from in your code?",
            split=lambda x, _, heads=heads: RIGHT.split(x, heads),
            scale=lambda sizes, _, heads=heads: (width // heads) ** -0.5,
        )
        for heads in range(1, width + 1)
        if heads != num_heads and width % heads == 0
    )
