"""Follow numbers through calls that select some of a row, such as max, sort and any, or its place, such as argmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.recorder import Step

from .calling import call_again, cells_by_element
from .shown import ShownTensor

# Operation -> position of `dim` among its arguments. These return the selected numbers and their indices ...
WITH_INDICES = {
    **{"max": 1, "min": 1, "median": 1, "nanmedian": 1, "mode": 1, "sort": 1, "cummax": 1, "cummin": 1},
    **{"topk": 2, "kthvalue": 2},
}
WITHOUT_INDICES = {"max": 1, "min": 1, "amax": 1, "amin": 1, "median": 1, "nanmedian": 1}  # ... these only numbers,
TRUTHS = {"any": 1, "all": 1}  # the largest and the smallest of truth values
JUDGING = {"argmax": 1, "argmin": 1, "argsort": 1, "count_nonzero": 1}  # and these neither
BY_DEFAULT_LAST = ("mode", "sort", "topk", "kthvalue", "argsort")
WITHOUT_ZEROS = ("nonzero", "argwhere", "where")  # `where` with one tensor
RUNNING = ("cummax", "cummin")


def selected(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Tensor | None] | None:
    """Return the sources of selected numbers and of their indices, or None if the operation is another one.

    A selected number came from the one that was selected, its index from the whole row.
    """
    if len(inputs) != 1 or step.effect == "in-place":
        return None
    if step.op in WITHOUT_ZEROS and step.call.func is not Tensor.where:
        return [_of_places(step, result, inputs[0])]
    if step.part is not None and step.op in WITH_INDICES:
        axis = axis_of(step)
        indices = step.call.results[1]
        if step.part[0] == 0:
            return [_of_indices(result, inputs[0], axis, indices)]
        return [_row(step, result, inputs[0], (axis,))]
    if step.part is None and step.op in WITHOUT_INDICES | TRUTHS | JUDGING:
        axis = axis_of(step)
        row = _row(step, result, inputs[0], axis if isinstance(axis, (tuple, list)) else (axis,))
        return [row if step.op in JUDGING else _equal(step, result, inputs[0], row)]
    return None


def axis_of(step: Step) -> Any:
    """Return the axis that a call was given, several of them as a tuple; None for all numbers."""
    args, kwargs = step.call.args, step.call.kwargs
    position = WITH_INDICES.get(step.op, 1)
    given = kwargs.get("dim", kwargs.get("axis", args[position] if len(args) > position else None))
    return (-1 if step.op in BY_DEFAULT_LAST else None) if given is None else given


def _of_indices(result: ShownTensor, one: ShownTensor, axis: int, indices: Tensor) -> Tensor:
    """Mark for each cell the number at its index along the axis."""
    found = cells_by_element(result, one)
    numbers = torch.arange(one.numel).view(one.shape)
    indices = indices.detach().cpu()
    if one.shape and indices.dim() < len(one.shape):
        indices = indices.unsqueeze(axis)
    places = numbers.gather(axis, indices) if one.shape else torch.zeros((), dtype=torch.long)
    found[torch.arange(len(found)), places.flatten()[result.cells]] = True
    return found


def _of_places(step: Step, result: ShownTensor, one: ShownTensor) -> Tensor:
    """Mark for the place of a number that is not 0 that number and all before, which decide how many come first."""
    found = cells_by_element(result, one)
    results = [place.detach().cpu() for place in step.call.results]
    is_matrix = len(results) == 1 and results[0].dim() == 2  # a row per place, not a tensor per axis
    places = results[0] if is_matrix else torch.stack(results, 1)
    numbers = torch.arange(one.numel).view(one.shape)[tuple(places.unbind(1))]
    numbers = numbers[:, None].expand(places.shape) if is_matrix else numbers
    return found | (torch.arange(one.numel)[None, :] <= numbers.flatten()[result.cells][:, None])


def _row(step: Step, result: ShownTensor, one: ShownTensor, axes: Sequence[int | None]) -> Tensor:
    """Mark for each cell the numbers of its row: those that differ from it along the given axes only."""
    cells_by_element(result, one)  # raises for too many
    dims = len(one.shape)
    along = {axis % dims for axis in axes if axis is not None and dims} if None not in axes else set(range(dims))
    sizes = [1 if axis in along else size for axis, size in enumerate(one.shape)]
    number = torch.arange(max(torch.Size(sizes).numel(), 1))[: torch.Size(sizes).numel()].view(sizes)
    of_result = number.expand(result.shape) if len(result.shape) == dims else number.view(result.shape)
    found = of_result.flatten()[result.cells][:, None] == number.expand(one.shape).flatten()[None, :]
    if step.op in RUNNING and dims:
        (axis,) = along
        place = torch.arange(one.shape[axis]).view([-1 if other == axis else 1 for other in range(dims)])
        place = place.expand(one.shape).flatten()
        found &= place[result.cells][:, None] >= place[None, :]
    return found


def _equal(step: Step, result: ShownTensor, one: ShownTensor, row: Tensor) -> Tensor:
    """Mark the numbers of the row that equal the result; the whole row where that can't be known any more."""
    if one.is_overwritten_after(step.number):
        return row
    values = step.call.tensors[0].detach().cpu()
    values = values != 0 if step.op in TRUTHS else values
    found = row & (call_again(step, [values]).flatten()[result.cells][:, None] == values.flatten()[None, :])
    return torch.where(found.any(1, keepdim=True), found, row)
