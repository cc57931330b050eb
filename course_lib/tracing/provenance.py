"""Find the provenance of each element, by propagating integer labels through a trace as the elements are."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from .graph import Operation, Trace, Value
from .tensors import map_instances

UNLABELLED = -1  # the label of an element of other provenance

LAYOUT = {
    "view", "_unsafe_view", "_reshape_alias", "reshape", "transpose", "transpose_", "t", "t_", "permute", "expand",
    "alias", "detach", "unsqueeze", "unsqueeze_", "squeeze", "squeeze_", "slice", "select", "split", "split_with_sizes",
    "unbind", "chunk", "unfold", "as_strided", "diagonal", "lift_fresh", "lift_fresh_copy", "clone", "contiguous",
    "cat", "stack", "repeat", "flip", "roll", "index", "index_select", "gather", "repeat_interleave", "movedim",
    "swapaxes", "narrow", "take_along_dim", "slice_scatter", "select_scatter",
}  # fmt: skip
VIEWS = ("view", "_unsafe_view", "_reshape_alias")  # what `view` and `reshape` run
POINTED_TO = {"index", "index_select", "gather", "repeat_interleave"}  # the result has elements of the first argument
CONTRACTIONS = {
    "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "vdot", "linear", "convolution", "addbmm", "einsum",
}  # fmt: skip
WRITES = {  # elements written to indices that other tensors name
    "index_put_", "index_put", "_index_put_impl_", "index_copy_", "index_copy", "scatter_", "scatter",
}  # fmt: skip
REDUCTIONS = {
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "var", "std", "norm", "logsumexp",
    "linalg_vector_norm", "all", "any", "var_mean",
}  # fmt: skip


def propagate(trace: Trace, start: dict[int, Tensor], *, sums: bool = False) -> list[Tensor]:
    """Propagate labels: changes of layout rearrange them, arithmetic keeps them, matrix products and sums drop them.

    `start` maps the number of a value to its labels, one integer per element. With `sums`, a sum keeps the label that
    all its terms have. Returns the labels of each value, `UNLABELLED` for elements without a label.
    """
    labels, rules = _Labels(), RULES | dict.fromkeys(("sum", "mean") if sums else (), _summed)
    seen: dict[int, Tensor] = {}
    for value in trace.values:
        if value.made_by is None:
            seen[value.number] = start.get(value.number, _unlabelled(value))
            labels.now[value.number] = seen[value.number].clone()
    for operation in trace.operations:
        if not operation.outputs:
            continue
        results = rules.get(operation.name, _computed)(operation, labels) or _computed(operation, labels)
        for value, result in zip(operation.outputs, results, strict=True):
            if value.number in start:
                result = torch.empty_like(value.tensor, dtype=torch.int64).copy_(start[value.number])
            labels.now[value.number] = result
            seen[value.number] = result.clone() if operation.in_place else result
    return [seen[value.number] for value in trace.values]


def _unlabelled(value: Value) -> Tensor:
    return torch.full_like(value.tensor, UNLABELLED, dtype=torch.int64)  # with the strides of the value


Choices = dict[tuple[int, int], bool]  # two labels -> whether the second one is kept


class _Labels:
    """The labels of every value up to one operation.

    Attributes:
        now: number of a value -> its labels; values that share memory share their labels.
        imaginary: label of the real part of a complex element -> label of its imaginary part.
        chosen: a line and its operation -> which of two labels it keeps, as a position with an angle of 0 showed.
    """

    def __init__(self) -> None:
        self.now: dict[int, Tensor] = {}
        self.imaginary: dict[int, int] = {}
        self.chosen: dict[tuple, Choices] = {}

    def of(self, value: Value) -> Tensor:
        return self.now[value.number]


def _moved(operation: Operation, labels: _Labels) -> list[Tensor] | None:
    """Return the labels after a change of layout, or None if the operation can't run on labels."""
    kwargs = {key: arg for key, arg in operation.kwargs.items() if key != "dtype"}
    moving = operation.inputs[: 1 if operation.name in POINTED_TO else None]

    def labels_or_indices(value: Value) -> Tensor:
        return labels.of(value) if value in moving else value.tensor

    try:
        results = operation.func(*map_instances(Value, labels_or_indices, operation.args), **kwargs)
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    moved = [results] if isinstance(results, Tensor) else list(results)
    fits = [tensor.shape for tensor in moved] == [value.tensor.shape for value in operation.outputs]
    return moved if fits else None


def _copied(operation: Operation, labels: _Labels) -> list[Tensor]:
    target, source = (labels.of(value) for value in operation.inputs[:2])
    return [target.copy_(source.expand_as(target))]


def _to_complex(operation: Operation, labels: _Labels) -> list[Tensor]:
    pairs = labels.of(operation.inputs[0])
    real, imaginary = pairs.unbind(-1)
    labels.imaginary.update(zip(real.flatten().tolist(), imaginary.flatten().tolist(), strict=True))
    return [real.clone()]


def _from_complex(operation: Operation, labels: _Labels) -> list[Tensor]:
    real = labels.of(operation.inputs[0])
    imaginary = [labels.imaginary.get(label, label) for label in real.flatten().tolist()]
    return [torch.stack([real, torch.tensor(imaginary, dtype=torch.int64).view(real.shape)], dim=-1)]


def _padded(operation: Operation, labels: _Labels) -> list[Tensor]:
    return [operation.func(labels.of(operation.inputs[0]), operation.args[1], UNLABELLED)]


def _unfolded(operation: Operation, labels: _Labels) -> list[Tensor]:
    """Return the labels of patches, which are read from numbers that are not integers; padding is 0."""
    patches = operation.func((labels.of(operation.inputs[0]) - UNLABELLED).double(), *operation.args[1:])
    return [patches.long() + UNLABELLED]


def _written(operation: Operation, labels: _Labels) -> list[Tensor]:
    """Return the labels after a write to given indices; elements without a label keep the old label."""
    target = labels.of(operation.inputs[0])

    def has_labels(value: Value) -> bool:
        return value.tensor.is_floating_point() or value.tensor.is_complex()

    def labels_or_indices(value: Value) -> Tensor:
        if value is operation.inputs[0]:
            return target.clone()
        return labels.of(value) if has_labels(value) else value.tensor

    written = target
    if any(map(has_labels, operation.inputs[1:])):  # not one plain number for all indices
        args = map_instances(Value, labels_or_indices, operation.args)
        written = operation.func(*args, **operation.kwargs)
    kept = torch.where(written == UNLABELLED, target, written)
    return [target.copy_(kept) if operation.in_place else kept]


def _summed(operation: Operation, labels: _Labels) -> list[Tensor] | None:
    terms, result = labels.of(operation.inputs[0]), operation.outputs[0].tensor
    if not terms.numel():
        return None
    dim = next(iter(operation.args[1:]), None) or tuple(range(terms.dim()))
    least, most = terms.amin(dim), terms.amax(dim)
    return [least.where(least == most, UNLABELLED).view(result.shape)]


RULES: dict[str, Callable[[Operation, _Labels], list[Tensor] | None]] = {
    **dict.fromkeys(LAYOUT, _moved),
    **dict.fromkeys(WRITES, _written),
    "copy_": _copied,
    "view_as_complex": _to_complex,
    "view_as_real": _from_complex,
    "view_as_real_copy": _from_complex,
    "constant_pad_nd": _padded,
    "im2col": _unfolded,
}


def _computed(operation: Operation, labels: _Labels) -> list[Tensor]:
    name = operation.name
    if operation.in_place and name not in CONTRACTIONS:
        target = labels.of(operation.inputs[0])
        added = _combined(operation.inputs[1:], labels, target.shape, {}) if name in ("add_", "sub_") else None
        return [target if added is None else target.copy_(torch.where(target == UNLABELLED, added, target))]
    is_constructor = name.endswith("_like") or name.startswith("new_")
    inputs = () if is_constructor or name in CONTRACTIONS or name in REDUCTIONS else operation.inputs
    chosen = labels.chosen.setdefault((name, *operation.frames[:1]), {})
    results = []
    for value in operation.outputs:
        combined = _combined(inputs, labels, value.tensor.shape, chosen)
        results.append(_unlabelled(value) if combined is None else _unlabelled(value).copy_(combined))
    return results


def _combined(values: Iterable[Value], labels: _Labels, shape: torch.Size, chosen: Choices) -> Tensor | None:
    """Return the broadcast labels of the first value that has labels, with gaps filled from the other values."""
    combined, elements = None, None
    for value in values:
        theirs = labels.of(value)
        if theirs.dim() > len(shape) or not (theirs != UNLABELLED).any():
            continue
        try:
            theirs, their_elements = theirs.expand(shape), value.tensor.expand(shape)
        except RuntimeError:
            continue
        if combined is None or elements is None:
            combined, elements = theirs.clone(), their_elements
            continue
        differ = (combined != theirs) & (combined != UNLABELLED) & (theirs != UNLABELLED)
        if differ.any():
            both = torch.stack([combined[differ], theirs[differ]])
            combined[differ] = _resolved(both, (elements[differ], their_elements[differ]), chosen)
        combined = torch.where(combined == UNLABELLED, theirs, combined)
    return combined


def _resolved(labels: Tensor, elements: tuple[Tensor, Tensor], chosen: Choices) -> Tensor:
    """Choose between two labels, such as those of the two terms of a rotation: the one whose other term is 0 somewhere.

    At rotary position 0 the angle is 0, so the term that brings in the other column is 0 there. Pieces of a text that
    begin later have no such position, and keep what an earlier piece showed.
    """
    pairs, pair = labels.unique(dim=1, return_inverse=True)
    counts = torch.zeros(pairs.shape[1], dtype=torch.int64)
    first, second = (counts.index_add(0, pair, (values == 0).long()) > 0 for values in elements)
    keys = [(label, other) for label, other in pairs.T.tolist()]
    chosen.update({keys[at]: bool(first[at]) for at in (first ^ second).nonzero().flatten().tolist()})
    takes_second = torch.tensor([chosen.get(key, False) for key in keys])
    return torch.where(takes_second[pair], labels[1], labels[0])
