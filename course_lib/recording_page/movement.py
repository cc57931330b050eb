"""Follow numbers that a call only moves, such as view, transpose, cat and indexing: labels go through the call."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import COPIES, Step

from .indexing import parts_of, read_by_index, read_by_mask, written_by
from .recorded_call import Table, call_again, cells_by_element
from .shown_tensor import ShownTensor
from .unread_inputs import is_like_another

FIRST_LABEL = 2.0**40  # larger than any number that a call may put between the labels, as padding does
WRITES = ("setitem", "copy_", "slice_scatter", "select_scatter", "diagonal_scatter", "index_put", "index_put_")
TURNS = ("transpose_", "t_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_")
JOINED = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack")
CHOOSING = ("getitem", "masked_select", "embedding", "index_select", "gather", "take", "take_along_dim", "index")


def movement_sources(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Table] | None:
    """Return the sources of numbers that a call only moves, or None if it computes new ones."""
    if step.effect not in ("view", "copy") and step.op not in (*WRITES, *TURNS) and step.op not in COPIES:
        return None
    for source in inputs:
        cells_by_element(result, source)  # raises for too many, before anything is run
    data = _data(step, inputs)
    labels, first = [], FIRST_LABEL
    begins: dict[int, float] = {}
    for i, (source, tensor) in enumerate(zip(inputs, step.call.tensors, strict=True)):
        if i not in data:
            labels.append(tensor.detach().cpu())
            continue
        begins[i], numbers = first, torch.arange(source.numel, dtype=torch.float64) + first
        first += source.numel
        labels.append(_in_layout(numbers.view(source.shape), source))
    if step.op.startswith("index_put") and (step.call.kwargs.get("accumulate") or len(step.call.args) > 3):
        return None
    origins = call_again(step, labels).flatten()[result.cells]
    tables: list[Table] = [_of_input(origins, begins.get(i), result, source) for i, source in enumerate(inputs)]
    if len(data) < len(inputs):
        _add_choices(step, result, inputs, labels, origins, data, tables)
    return tables


def _data(step: Step, inputs: Sequence[ShownTensor]) -> set[int]:
    """Return which inputs hold numbers that are moved; the others hold indices, or only a shape."""
    of = {id(tensor): i for i, tensor in enumerate(step.call.tensors)}
    if step.op in JOINED or step.op == "copy_":
        return set(range(len(inputs)))
    if step.op in WRITES:  # x[key] = value, and calls with the same order of base and value
        args = [value for value in (*step.call.args, *step.call.kwargs.values()) if isinstance(value, Tensor)]
        value = step.call.args[2] if step.op in ("setitem", "index_put", "index_put_") else args[-1]
        return {0} | ({of[id(value)]} if isinstance(value, Tensor) else set())
    if step.op == "embedding":  # the words' numbers choose rows of the weights
        return {i for i, source in enumerate(inputs) if source.dtype.is_floating_point}
    return {0}


def _add_choices(
    step: Step,
    result: ShownTensor,
    inputs: Sequence[ShownTensor],
    labels: Sequence[Tensor],
    origins: Tensor,
    data: set[int],
    tables: list[Table],
) -> None:
    """Add the indices and masks that choose what is read or written; other kinds of input get None."""
    if step.op in ("setitem", "index_put", "index_put_"):
        for i, table in written_by(result, inputs, step.call.tensors, step.call.args[1]).items():
            tables[i] = table
        return
    if step.op not in CHOOSING:
        for i in set(range(len(inputs))) - data:
            tables[i] = tables[i] if is_like_another(step.op) or step.op in WRITES else None
        return
    for i in set(range(len(inputs))) - data:
        if labels[i].dtype == torch.bool:
            tables[i] = _of_mask(step, result, inputs, origins, i)
            continue

        def read(index: Tensor, i: int = i) -> Tensor:
            return call_again(step, [*labels[:i], index, *labels[i + 1 :]]).flatten()[result.cells]

        tables[i] = read_by_index(result, inputs[i], labels[i], read)


def _of_mask(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor], origins: Tensor, i: int) -> Tensor | None:
    """Return the mask's numbers that decide on each cell of `x[mask]`; None if masks and indices are mixed."""
    mask, shape = step.call.tensors[i], inputs[0].shape
    axis, key = 0, step.call.args[1] if len(step.call.args) > 1 else mask
    if step.op == "getitem":
        axis = next(axis for axis, part in parts_of(key, len(shape)) if part is mask)
    if step.op == "masked_select" and mask.shape != shape:
        return None
    numbers = torch.arange(mask.numel()).view(mask.shape)
    numbers = numbers.view([1] * axis + [*mask.shape] + [1] * (len(shape) - axis - mask.dim())).expand(shape)
    return read_by_mask(result, inputs[i], numbers.flatten()[(origins - FIRST_LABEL).long()])


def _in_layout(labels: Tensor, source: ShownTensor) -> Tensor:
    """Give labels the strides of the tensor, which decide whether view works."""
    if any(stride == 0 for stride, size in zip(source.stride, source.shape, strict=True) if size > 1):
        return labels
    return torch.empty_strided(source.shape, source.stride, dtype=labels.dtype).copy_(labels)


def _of_input(origins: Tensor, begin: float | None, result: ShownTensor, source: ShownTensor) -> Tensor:
    table = cells_by_element(result, source)
    if begin is None:  # places, such as the indices in x[places]
        return table
    inside = (origins >= begin) & (origins < begin + source.numel)
    cells = inside.nonzero().flatten()
    table[cells, (origins[cells] - begin).long()] = True
    return table
