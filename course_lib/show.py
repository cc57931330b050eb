"""Print a tensor with the names of its axes and the labels of its tokens, in the same way on every device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from torch import Tensor

TOKEN_AXES = ("token", "query", "key")


def show(name: str, tensor: Tensor, axes: str, words: Sequence[str] = (), *, digits: int = 4) -> None:
    """Print a tensor as labelled tables, one for each index of its leading axes.

    Unlike `print(tensor)` it says which axis is which, and it prints neither device nor grad_fn, so that a lesson's
    stored output is the same on CPU and CUDA.

    Args:
        name: the tensor's name.
        tensor: a tensor of at least one axis.
        axes: a name for each axis, separated by spaces, such as "batch head query key".
        words: token labels for each axis called token, query or key that is as long as words; other axes are labelled
            by index.
        digits: number of decimals of a floating-point element.

    Raises:
        ValueError: axes does not name each axis of the tensor.

    Example:
        >>> show("keep", torch.tensor([[True, False], [True, True]]), "query key", ("a", "b"))
        keep: query 2, key 2
               a      b
        a   True  False
        b   True   True
    """
    names = axes.split()
    if len(names) != tensor.dim() or not names:
        raise ValueError(
            f"axes={axes!r} names {len(names)} axes, but {name} has the shape {tuple(tensor.shape)}: give one name "
            "per axis, such as 'batch token width'."
        )
    print(f"{name}: " + ", ".join(f"{axis} {size}" for axis, size in zip(names, tensor.shape, strict=True)))
    tensor = tensor.detach().cpu()
    if tensor.dim() == 1:
        tensor, names = tensor[None], ["", *names]
    labels = [_labels(axis, size, words) for axis, size in zip(names, tensor.shape, strict=True)]
    for index in product(*(range(size) for size in tensor.shape[:-2])):
        heading = [f"{axis} {label[i]}" for axis, label, i in zip(names, labels, index, strict=False) if len(label) > 1]
        if heading:
            print(", ".join(heading))
        _print_table(tensor[index], labels[-2], labels[-1], digits)


def _labels(axis: str, size: int, words: Sequence[str]) -> list[str]:
    if axis in TOKEN_AXES and size == len(words):
        return list(words)
    return [str(i) for i in range(size)] if axis else [""] * size


def _print_table(table: Tensor, row_labels: list[str], column_labels: list[str], digits: int) -> None:
    cells = [[_text(element, digits) for element in row] for row in table.tolist()]
    width = max((len(text) for row in [column_labels, *cells] for text in row), default=0)
    first = max(map(len, row_labels), default=0)
    print(" " * first + "".join(f"  {label:>{width}}" for label in column_labels))
    for label, row in zip(row_labels, cells, strict=True):
        print(f"{label:<{first}}" + "".join(f"  {text:>{width}}" for text in row))


def _text(element: float | int | bool, digits: int) -> str:
    return f"{element:.{digits}f}" if isinstance(element, float) else str(element)
