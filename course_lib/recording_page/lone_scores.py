"""Leave out the only visible score of a row, whose weight is 1 whatever it is, and count what could hide it instead."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .gradients import CONTRACTIONS
from .masks import adds_to_hide
from .memory import Table, joined
from .shown_tensor import ShownTensor

Read = Sequence[tuple[ShownTensor, Table]]  # what a step read, and the sources of its result in it


class NotFollowed(Exception):
    """Some numbers on the path are not shown, or may depend on a whole tensor."""


def without_lone_scores(
    result: ShownTensor, lone: Tensor, table: Tensor, trace: Callable[[Tensor], Read], past: dict[str, tuple[str, Read]]
) -> Read:
    """Return what a softmax read, with the masks behind a lone score in place of that score.

    Args:
        result: the weights of a softmax.
        lone: whether the score of each cell is the only visible one of its row.
        table: the sources of the weights among the scores.
        trace: returns which tensors held those scores.
        past: key of each tensor that the run made before -> the operation, and what it read.
    """
    lone_score = torch.zeros_like(table)
    lone_score[lone.nonzero().flatten(), result.cells[lone]] = True
    try:
        masks = _masks_behind(trace(lone_score), past)
    except NotFollowed:
        return trace(table)
    return joined([*trace(table & ~lone_score), *masks])


def _masks_behind(read: Read, past: dict[str, tuple[str, Read]]) -> Read:
    """Return the numbers on the way from products to scores that could hide them, with the cells that they decide on.

    These are all truth values and indices, and the numbers of masks that are added. What is behind a product changes a
    score, and does not hide it.
    """
    masks: list[tuple[ShownTensor, Table]] = []
    waiting = list(read)
    while waiting:
        tensor, table = waiting.pop()
        if table is None:
            raise NotFollowed
        op, before = past.get(tensor.key, ("", ()))
        if not tensor.dtype.is_floating_point:
            masks.append((tensor, table))
        elif op not in CONTRACTIONS:
            earlier = [(other, _through(tensor, table, inner)) for other, inner in before]
            ends = table & ~_read_on(tensor, before)
            masks += [(tensor, ends)] if adds_to_hide(tensor) and bool(ends.any()) else []
            waiting += [(other, inner) for other, inner in earlier if bool(inner.any())]
    return masks


def _read_on(tensor: ShownTensor, before: Read) -> Tensor:
    derived = torch.zeros(tensor.numel, dtype=torch.bool)
    for _, inner in before:
        derived |= torch.ones_like(derived) if inner is None else inner.any(1)
    return derived


def _through(tensor: ShownTensor, table: Tensor, inner: Table) -> Tensor:
    """Return which numbers read by a step decide on each cell, given which numbers of its result do."""
    if inner is None or not tensor.is_whole:
        raise NotFollowed
    return (table.float() @ inner.float()) > 0
