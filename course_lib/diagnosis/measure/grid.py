"""Examine code for tokens with several axes, such as the pixels of a grid, as code for a row of tokens."""

import math
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from .calling import usual_call
from .options import MOST_TOKENS
from .run import noise_of
from .subject import Subject, SubjectFailed

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def as_row(code: Callable[..., Any], x: Tensor, call: Callable[..., Any] | None) -> tuple[Tensor, Callable[..., Any]]:
    """Return the tokens of x, (batch, *axes, width), as (batch, token, width), and how to run code on these.

    Code with weights for the width of the second axis of x and none for that of the last gets (batch, width, *axes).
    A context, if `call` takes one, stays as it is. The output may be a grid of another size, as of pooled queries.
    """
    run = call or usual_call(code)
    first = _takes_width_first(code, x)
    axes = x.shape[2:] if first else x.shape[1:-1]

    def to_grid(tokens: Tensor) -> Tensor:
        return tokens.mT.unflatten(2, axes) if first else tokens.unflatten(1, axes)

    @wraps(run)
    def run_on_row(code: Any, tokens: Tensor, *context: Tensor) -> Any:
        output = run(code, to_grid(tokens).contiguous(), *context)
        if not isinstance(output, Tensor) or output.dim() != x.dim():
            return output
        return output.flatten(2).mT if first else output.flatten(1, -2)

    return (x.flatten(2).mT if first else x.flatten(1, -2)).contiguous(), run_on_row


def _takes_width_first(code: Callable[..., Any], x: Tensor) -> bool:
    modules = list(code.modules()) if isinstance(code, nn.Module) else []
    layers = {one.in_features for one in modules if isinstance(one, nn.Linear)}
    layers |= {one.in_channels for one in modules if isinstance(one, CONVOLUTIONS)}
    weights = {size for one in modules for parameter in one.parameters() for size in parameter.shape}
    known = next((sizes for sizes in (layers, weights) if not sizes.isdisjoint((x.shape[1], x.shape[-1]))), set())
    return x.shape[1] in known and x.shape[-1] not in known


def smaller_grid(code: Callable[..., Any], x: Tensor, call: Callable[..., Any] | None) -> Tensor:
    """Return x, (batch, *axes, width), with shorter axes if its tokens are too many to be traced; x if the code fails.

    The code must take a sample alone, too: a reshape for the old size may move tokens into other samples.
    """
    start = 2 if _takes_width_first(code, x) else 1
    axes = tuple(x.shape[start : start + x.dim() - 2])
    for sizes in _shorter(axes) if math.prod(axes) > MOST_TOKENS else ():
        cut = x[(slice(None),) * start + tuple(map(slice, sizes))]
        row, run = as_row(code, cut.detach().cpu().double(), call)
        try:
            subject = Subject(code, run)
            sizes_of = [subject.run(given).shape[0] for given in (row, row[:1])]
        except RuntimeError:  # or it can't be copied
            continue
        if sizes_of == [len(x), 1]:
            return cut
    return x


def _shorter(axes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield sizes of few enough tokens: the longest axis is halved, for axes of different sizes, or all of them are."""
    for at_once in (1, len(axes)):
        sizes = list(axes)
        while math.prod(sizes) > MOST_TOKENS:
            for axis in sorted(range(len(sizes)), key=lambda axis: -sizes[axis])[:at_once]:
                sizes[axis] = -(-sizes[axis] // 2)
        yield tuple(sizes)


def seen_by_each(subject: Subject, x: Tensor) -> Tensor | None:
    """Return which token's output moves with which token of x, bool (token, token); None if that can't be measured."""
    x, columns = x.double(), []
    noise = noise_of(x.shape, seed=29)  # which no norm removes
    try:
        before = subject.run(x)
        for token in range(x.shape[1]):
            moved = x.clone()
            moved[:, token] += noise[:, token]
            columns.append((subject.run(moved) - before).abs().nan_to_num(nan=torch.inf).flatten(2).amax((0, 2)) > 1e-9)
        seen = torch.stack(columns, dim=1)
    except (SubjectFailed, RuntimeError, IndexError):  # or its output has no row for each token
        return None
    return seen if seen.shape == (len(columns), len(columns)) else None


def groups_of(seen: Tensor, *, of_row: bool) -> Tensor | None:
    """Return which token may see which, bool (token, token), if they see each other in several groups; else None.

    The groups may be the rows, the columns or the windows of a grid, also of one that is shifted.

    Args:
        seen: which token sees which, bool (token, token).
        of_row: whether x is a row of tokens. The code may lay them out as a grid, and then some group has tokens that
            are no neighbours in the row; those of a wrong mask or view mostly are.
    """
    together = seen | seen.mT | torch.eye(len(seen), dtype=torch.bool)
    closed = (together.double() @ together.double() > 0) == together  # who is seen by a token's group is in it
    if not closed.all() or together.all() or not (together.sum(1) > 1).any():
        return None
    edges = (together[:, 1:] != together[:, :-1]).sum(1) + (together[:, 0] & together[:, -1])
    return None if of_row and bool((edges <= 2).all()) else together
