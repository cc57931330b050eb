"""Examine code for tokens with several axes, or behind their width, as code for (batch, token, width)."""

import math
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from course_lib.tracing import VIEWS, Trace

from .calling import usual_call
from .options import MOST_TOKENS
from .run import noise_of
from .subject import Subject, SubjectFailed

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def as_row(code: Callable[..., Any], x: Tensor, call: Callable[..., Any] | None) -> tuple[Tensor, Callable[..., Any]]:
    """Return the tokens of x, (batch, *axes, width), as (batch, token, width), and how to run code on these.

    Code whose first layer takes the second axis of x and not the last gets (batch, width, *axes). Of tokens with one
    axis there may be more or fewer. A context, if `call` takes one, stays as it is. The output may be a grid of another
    size, as of pooled queries.
    """
    run = call or usual_call(code)
    first = _takes_width_first(code, x)
    start = 2 if first else 1
    sizes = x.shape[start : start + x.dim() - 2]

    def to_grid(tokens: Tensor) -> Tensor:
        axes = sizes if len(sizes) > 1 else tokens.shape[1:2]
        return tokens.mT.unflatten(2, axes) if first else tokens.unflatten(1, axes)

    @wraps(run)
    def run_on_row(code: Any, tokens: Tensor, *context: Tensor) -> Any:
        grid = to_grid(tokens).contiguous()
        output = run(code, grid, *context)
        if not isinstance(output, Tensor) or output.dim() != x.dim():
            return output
        own, axes = output.shape[start : start + x.dim() - 2], grid.shape[start : start + x.dim() - 2]
        if own != axes and own.numel() == axes.numel():  # axes that were exchanged are no smaller grid
            return output
        return output.flatten(2).mT if first else output.flatten(1, -2)

    return (x.flatten(2).mT if first else x.flatten(1, -2)).contiguous(), run_on_row


def has_width_first(code: Callable[..., Any], x: Tensor) -> bool:
    """Return whether x, of three axes, is (batch, width, token): layers take its second axis, no weight its last."""
    sizes = {size for parameter in _parameters(code) for size in parameter.shape}
    return x.dim() == 3 and x.shape[1] in map(_width_of, _layers(code)) and x.shape[2] not in sizes


def _takes_width_first(code: Callable[..., Any], x: Tensor) -> bool:
    first, last = x.shape[1], x.shape[-1]
    layer = next((one for one in _layers(code) if _width_of(one) in (first, last)), None)
    if layer is not None:
        return _width_of(layer) == first if first != last else isinstance(layer, CONVOLUTIONS)
    sizes = {size for parameter in _parameters(code) for size in parameter.shape}
    return first in sizes and last not in sizes


def _layers(code: Callable[..., Any]) -> list[nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d]:
    modules = code.modules() if isinstance(code, nn.Module) else ()
    return [one for one in modules if isinstance(one, (nn.Linear, *CONVOLUTIONS))]


def _width_of(layer: nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d) -> int:
    return layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels


def _parameters(code: Callable[..., Any]) -> list[nn.Parameter]:
    parameters = code.parameters() if isinstance(code, nn.Module) else ()
    return [one for one in parameters if not is_lazy(one)]


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


def lays_out_grid(trace: Trace, num_tokens: int) -> bool:
    """Return whether code views a row of tokens as the rows and columns of a grid, before or behind its width.

    The rows may be further samples, and a class token in front of them none of the grid.
    """
    counts = (num_tokens, num_tokens - 1)
    read = trace.ancestors([trace.output]) if trace.output is not None else range(len(trace.operations))
    for number in trace.descendants_of_input().intersection(read):
        operation = trace.operations[number]
        if operation.name in VIEWS and operation.outputs:
            row, grid = operation.inputs[0].tensor.shape, operation.outputs[0].tensor.shape
            if len(row) == 3 < len(grid) and row[0] == grid[0]:
                last = row[1] in counts and row[2] == grid[-1] and sum(size > 1 for size in grid[1:-1]) > 1
                first = row[1] == grid[1] and row[2] in counts and sum(size > 1 for size in grid[2:]) > 1
                if first or last:
                    return True
            elif len(row) == 3 == len(grid) and row[1] in counts and row[2] == grid[2] and 1 < grid[1] < row[1]:
                return True
    return False


def boxes_of(seen: Tensor, *, of_row: bool) -> Tensor | None:
    """Return which token may see which, bool (token, token), if each sees a part of the rows and columns of a grid.

    That is its neighbourhood, as of windows that overlap; else None. The grid may have any width that fits, and where
    x is a row of tokens (`of_row`), some token must see others that are no neighbours in the row.

    Args:
        seen: which token sees which, bool (token, token).
        of_row: whether x is a row of tokens.
    """
    count = len(seen)
    edges = (seen[:, 1:] != seen[:, :-1]).sum(1) + (seen[:, 0] & seen[:, -1])
    alone = bool((seen.sum(1) == 1).all())
    if alone or seen.all() or not seen.diagonal().all() or (of_row and bool((edges <= 2).all())):
        return None
    widths = [width for width in range(2, count // 2 + 1) if count % width == 0]
    return seen if any(_are_boxes(seen.unflatten(1, (-1, width))) for width in widths) else None


def _are_boxes(seen: Tensor) -> bool:
    """Return whether each token, seen (token, row, column), sees all crossings of a run of rows and one of columns."""
    rows, columns = seen.any(2), seen.any(1)
    runs = all(bool(((one[:, 1:] & ~one[:, :-1]).sum(1) + one[:, 0] == 1).all()) for one in (rows, columns))
    parts = rows.any() and not (rows.all(1) | columns.all(1)).all()
    return bool(runs and parts) and torch.equal(seen, rows[:, :, None] & columns[:, None])


def count_in_front(seen: Tensor) -> int:
    """Return how many tokens in front see all tokens and are seen by all; 0 if no other token is behind them."""
    front = int((seen.all(0) & seen.all(1)).long().cumprod(0).sum())
    return front if front < len(seen) else 0


def groups_of(seen: Tensor, *, of_row: bool) -> Tensor | None:
    """Return which token may see which, bool (token, token), if they see each other in several groups; else None.

    The groups may be the rows, the columns or the windows of a grid, also of one that is shifted. Tokens in front of
    it, such as that of the class, may see all tokens if all of these see them; no wrong mask or view does that.

    Args:
        seen: which token sees which, bool (token, token).
        of_row: whether x is a row of tokens. The code may lay them out as a grid, and then some group has tokens that
            are no neighbours in the row; those of a wrong mask or view mostly are.
    """
    front = count_in_front(seen)
    if front:
        behind = groups_of(seen[front:, front:], of_row=False)
        return None if behind is None else F.pad(behind, (front, 0, front, 0), value=True)
    together = seen | seen.mT | torch.eye(len(seen), dtype=torch.bool)
    closed = (together.double() @ together.double() > 0) == together  # who is seen by a token's group is in it
    if not closed.all() or together.all() or not (together.sum(1) > 1).any():
        return None
    edges = (together[:, 1:] != together[:, :-1]).sum(1) + (together[:, 0] & together[:, -1])
    return None if of_row and bool((edges <= 2).all()) else together
