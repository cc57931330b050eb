"""Follow numbers through calls that select some of a row, such as max, sort and any, or its place, such as argmax."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.recorder import Step

from .recorded_call import Table, call_again, cells_by_element
from .shown_tensor import ShownTensor

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


def selection_sources(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Table] | None:
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
    axis = kwargs.get("dim", kwargs.get("axis", args[position] if len(args) > position else None))
    return (-1 if step.op in BY_DEFAULT_LAST else None) if axis is None else axis


def _of_indices(result: ShownTensor, source: ShownTensor, axis: int, indices: Tensor) -> Tensor:
    table = cells_by_element(result, source)
    numbers = torch.arange(source.numel).view(source.shape)
    indices = indices.detach().cpu()
    if source.shape and indices.dim() < len(source.shape):
        indices = indices.unsqueeze(axis)
    places = numbers.gather(axis, indices) if source.shape else torch.zeros((), dtype=torch.long)
    table[torch.arange(len(table)), places.flatten()[result.cells]] = True
    return table


def _of_places(step: Step, result: ShownTensor, source: ShownTensor) -> Tensor:
    """Mark, for the position of a nonzero number, that number and all before it: they decide how many come first."""
    table = cells_by_element(result, source)
    results = [tensor.detach().cpu() for tensor in step.call.results]
    is_matrix = len(results) == 1 and results[0].dim() == 2  # a row per place, not a tensor per axis
    places = results[0] if is_matrix else torch.stack(results, 1)
    numbers = torch.arange(source.numel).view(source.shape)[tuple(places.unbind(1))]
    numbers = numbers[:, None].expand(places.shape) if is_matrix else numbers
    return table | (torch.arange(source.numel)[None, :] <= numbers.flatten()[result.cells][:, None])


def _row(step: Step, result: ShownTensor, source: ShownTensor, axes: Sequence[int | None]) -> Tensor:
    """Mark for each cell the numbers that differ from it along the given axes only."""
    cells_by_element(result, source)  # raises for too many
    dims = len(source.shape)
    along = {axis % dims for axis in axes if axis is not None and dims} if None not in axes else set(range(dims))
    sizes = [1 if axis in along else size for axis, size in enumerate(source.shape)]
    number = torch.arange(max(torch.Size(sizes).numel(), 1))[: torch.Size(sizes).numel()].view(sizes)
    of_result = number.expand(result.shape) if len(result.shape) == dims else number.view(result.shape)
    table = of_result.flatten()[result.cells][:, None] == number.expand(source.shape).flatten()[None, :]
    if step.op in RUNNING and dims:
        (axis,) = along
        position = torch.arange(source.shape[axis]).view([-1 if other == axis else 1 for other in range(dims)])
        position = position.expand(source.shape).flatten()
        table &= position[result.cells][:, None] >= position[None, :]
    return table


def _equal(step: Step, result: ShownTensor, source: ShownTensor, row: Tensor) -> Tensor:
    """Mark the numbers of the row that equal the result, or the whole row where the numbers are lost."""
    if source.is_overwritten_after(step.number):
        return row
    values = step.call.tensors[0].detach().cpu()
    values = values != 0 if step.op in TRUTHS else values
    table = row & (call_again(step, [values]).flatten()[result.cells][:, None] == values.flatten()[None, :])
    return torch.where(table.any(1, keepdim=True), table, row)
