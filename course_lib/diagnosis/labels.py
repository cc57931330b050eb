"""Where a number came from: labels that travel through a trace as the numbers do."""

from __future__ import annotations

import torch
from torch import Tensor

from .trace import Operation, Trace, Value, swap

NOTHING = -1  # the label of a number that came from elsewhere

LAYOUT = {
    "view", "_unsafe_view", "_reshape_alias", "reshape", "transpose", "transpose_", "t", "t_", "permute", "expand",
    "alias", "detach", "unsqueeze", "unsqueeze_", "squeeze", "squeeze_", "slice", "select", "split", "split_with_sizes",
    "unbind", "chunk", "unfold", "as_strided", "diagonal", "lift_fresh", "lift_fresh_copy", "clone", "contiguous",
    "cat", "stack", "repeat", "flip", "roll", "index", "index_select", "gather", "repeat_interleave", "movedim",
    "swapaxes", "narrow", "take_along_dim", "slice_scatter", "select_scatter",
}  # fmt: skip
CONTRACTIONS = {
    "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "vdot", "linear", "convolution", "addbmm", "einsum",
}  # fmt: skip
WRITES = {  # numbers written to places that other tensors name
    "index_put_", "index_put", "_index_put_impl_", "index_copy_", "index_copy", "scatter_", "scatter",
}  # fmt: skip
REDUCTIONS = {
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "var", "std", "norm", "logsumexp",
    "linalg_vector_norm", "all", "any", "var_mean",
}  # fmt: skip


def carry(trace: Trace, start: dict[int, Tensor]) -> list[Tensor]:
    """Let labels travel: layout moves them, arithmetic keeps them in place, a product or a sum ends them.

    Args:
        trace: of a run.
        start: number of a value -> its labels, one for each of its numbers.

    Returns:
        For each value its labels, `NOTHING` where none arrived.
    """
    now: dict[int, Tensor] = {}
    seen: list[Tensor] = []
    partners: dict[int, int] = {}  # real part -> imaginary part of a complex number
    for value in trace.values:
        blank = torch.full_like(value.tensor, NOTHING, dtype=torch.int64)
        seen.append(start.get(value.number, blank))
        if value.made_by is None:
            now[value.number] = seen[-1].clone()
    for operation in trace.operations:
        if not operation.outputs:
            continue
        results = _labels(operation, now, partners)
        for value, labels in zip(operation.outputs, results, strict=True):
            if value.number in start:
                labels = torch.empty_like(value.tensor, dtype=torch.int64).copy_(start[value.number])
            now[value.number] = labels
            seen[value.number] = labels.clone() if operation.in_place else labels
    return seen


def _labels(operation: Operation, now: dict[int, Tensor], partners: dict[int, int]) -> list[Tensor]:
    name = operation.name
    if name in LAYOUT:
        moved = _moved(operation, now)
        if moved is not None:
            return moved
    if name == "copy_":
        target, given = (now[value.number] for value in operation.inputs[:2])
        return [target.copy_(given.expand_as(target))]
    if name == "view_as_complex":
        pairs = now[operation.inputs[0].number]
        partners.update(zip(pairs[..., 0].flatten().tolist(), pairs[..., 1].flatten().tolist(), strict=True))
        return [pairs[..., 0].clone()]
    if name in ("view_as_real", "view_as_real_copy"):
        real = now[operation.inputs[0].number]
        other = torch.tensor([partners.get(label, label) for label in real.flatten().tolist()], dtype=torch.int64)
        return [torch.stack([real, other.view(real.shape)], dim=-1)]
    if name == "constant_pad_nd":
        return [operation.func(now[operation.inputs[0].number], operation.args[1], NOTHING)]
    if name in WRITES:
        return [_written(operation, now)]
    if operation.in_place and name not in CONTRACTIONS:
        target = now[operation.inputs[0].number]
        other = _together(operation.inputs[1:], now, target.shape) if name in ("add_", "sub_") else None
        if other is not None:
            target.copy_(torch.where(target == NOTHING, other, target))
        return [target]
    made_new = name.endswith("_like") or name.startswith("new_")
    ends = name in CONTRACTIONS or name in REDUCTIONS or made_new
    made = []
    for value in operation.outputs:
        labels = None if ends else _together(operation.inputs, now, value.tensor.shape)
        blank = torch.full_like(value.tensor, NOTHING, dtype=torch.int64)  # strides as the numbers have them
        made.append(blank if labels is None else blank.copy_(labels))
    return made


def _written(operation: Operation, now: dict[int, Tensor]) -> Tensor:
    """The labels after numbers were written to places that a tensor names; those without one leave what was there."""
    target = now[operation.inputs[0].number]

    def holds_numbers(value: Value) -> bool:
        return value.tensor.is_floating_point() or value.tensor.is_complex()

    def label_of(value: Value) -> Tensor:
        if value is operation.inputs[0]:
            return target.clone()
        return now[value.number] if holds_numbers(value) else value.tensor

    written = target
    if any(map(holds_numbers, operation.inputs[1:])):  # not one plain number for all places
        written = operation.func(*swap(operation.args, Value, label_of), **operation.kwargs)
    kept = torch.where(written == NOTHING, target, written)
    return target.copy_(kept) if operation.in_place else kept


def _moved(operation: Operation, now: dict[int, Tensor]) -> list[Tensor] | None:
    """The labels after a change of layout; None where it can't be done to labels."""
    kwargs = {key: arg for key, arg in operation.kwargs.items() if key != "dtype"}
    carried = operation.inputs[
        : 1 if operation.name in ("index", "index_select", "gather", "repeat_interleave") else None
    ]

    def label_of(value: Value) -> Tensor:
        return now[value.number] if value in carried else value.tensor

    try:
        results = operation.func(*swap(operation.args, Value, label_of), **kwargs)
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    parts = [results] if isinstance(results, Tensor) else list(results)
    shapes = [tuple(value.tensor.shape) for value in operation.outputs]
    return parts if [tuple(part.shape) for part in parts] == shapes else None


def _together(inputs: tuple[Value, ...], now: dict[int, Tensor], shape: torch.Size) -> Tensor | None:
    """Labels of the first input that has some, where arithmetic puts them; gaps are filled from the others.

    Where two inputs have other labels, as the two halves of a rotation have, the one counts that stands alone
    somewhere: the first token is turned by nothing, so what does not belong there is zero.
    """
    made, numbers = None, None
    for value in inputs:
        labels = now[value.number]
        if labels.dim() > len(shape) or not (labels != NOTHING).any():
            continue
        try:
            labels, other = labels.expand(shape), value.tensor.expand(shape)
        except RuntimeError:
            continue
        if made is None:
            made, numbers = labels.clone(), other
            continue
        apart = (made != labels) & (made != NOTHING) & (labels != NOTHING)
        if apart.any():
            pairs = torch.stack([made[apart], labels[apart]])
            group = torch.unique(pairs, dim=1, return_inverse=True)[1]
            first = torch.zeros(int(group.max()) + 1).index_add_(0, group, (numbers[apart] == 0).float()) > 0
            second = torch.zeros(int(group.max()) + 1).index_add_(0, group, (other[apart] == 0).float()) > 0
            made[apart] = torch.where((first & ~second)[group], labels[apart], made[apart])
        made = torch.where(made == NOTHING, labels, made)
    return made
