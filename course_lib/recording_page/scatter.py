"""Follow numbers through calls that write where an index tensor says along one axis, such as scatter."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import Step

from .recorded_call import Table, cells_by_element
from .shown_tensor import ShownTensor

BY_ELEMENT = ("scatter", "scatter_add", "scatter_reduce")  # the index has a number for each number that is written
BY_SLICE = ("index_add", "index_copy", "index_fill", "index_reduce")  # the index has one for each slice
ADDING = ("scatter_add", "scatter_reduce", "index_add", "index_reduce")
NAMES = ("input", "dim", "index", "src")
OTHER_NAMES = {"self": "input", "value": "src", "source": "src", "tensor": "src"}


def scatter_sources(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Table] | None:
    """Return the sources of scattered numbers, or None for other operations.

    Any index could have named a number's place: all of them count as sources, except those of other rows in a scatter.
    """
    op = step.op.removesuffix("_")
    if op not in BY_ELEMENT + BY_SLICE:
        return None
    named = {OTHER_NAMES.get(name, name): value for name, value in step.call.kwargs.items()}
    arguments = dict(zip(NAMES, step.call.args, strict=False)) | named
    base, index, axis = arguments["input"], arguments["index"].detach().cpu(), arguments["dim"]
    axis %= max(base.dim(), 1)
    places, numbers = _written(op, tuple(base.shape), axis, index)
    adds = op in ADDING or "reduce" in step.call.kwargs
    of = {id(tensor): i for i, tensor in enumerate(step.call.tensors)}
    tables = {i: cells_by_element(result, source) for i, source in enumerate(inputs)}
    table = tables[of[id(base)]]
    table[torch.arange(len(table)), result.cells] = True
    if not adds or step.call.kwargs.get("include_self") is False:
        table[:, places.flatten()] = False
    src = arguments.get("src")
    if isinstance(src, Tensor):
        tables[of[id(src)]] |= _sources(result, src, places, tables[of[id(src)]], adds=adds)
    of_index = of[id(arguments["index"])]
    tables[of_index] |= _indices(result, base, index, axis, numbers, tables[of_index])
    return [tables[i] for i in range(len(inputs))]


def _written(op: str, shape: tuple[int, ...], axis: int, index: Tensor) -> tuple[Tensor, bool]:
    """Return the element of the base that each number is written to, and whether indices select row by row."""
    numbers = torch.arange(torch.Size(shape).numel()).view(shape)
    if op in BY_SLICE:
        return (numbers.index_select(axis, index.flatten()) if shape else numbers), False
    window = tuple(slice(None) if other == axis else slice(size) for other, size in enumerate(index.shape))
    return numbers[window].gather(axis, index), True


def _sources(result: ShownTensor, src: Tensor, places: Tensor, like: Tensor, *, adds: bool) -> Tensor:
    """Mark the number written to each cell: the last of several writes, or all of them where they add up."""
    numbers = torch.arange(src.numel()).view(src.shape)
    numbers = numbers[tuple(map(slice, places.shape))] if src.dim() == places.dim() else numbers.expand(places.shape)
    cell_of = torch.full((result.numel,), -1)
    cell_of[result.cells] = torch.arange(len(like))
    cells, numbers = cell_of[places.flatten()], numbers.flatten()
    table, shown = torch.zeros_like(like), cells >= 0
    if adds:
        table[cells[shown], numbers[shown]] = True
        return table
    last = dict(zip(cells[shown].tolist(), numbers[shown].tolist(), strict=True))
    table[list(last), list(last.values())] = True
    return table


def _indices(result: ShownTensor, base: Tensor, index: Tensor, axis: int, by_row: bool, like: Tensor) -> Tensor:
    if not by_row:
        return torch.ones_like(like)
    sizes = [1 if other == axis else size for other, size in enumerate(base.shape)]
    rows = torch.arange(torch.Size(sizes).numel()).view(sizes)
    window = tuple(slice(None) if other == axis else slice(size) for other, size in enumerate(index.shape))
    of_index = rows[window].expand(index.shape).flatten()
    return rows.expand(base.shape).flatten()[result.cells][:, None] == of_index[None, :]
