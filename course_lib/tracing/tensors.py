"""Find the tensors in nested arguments and results, and read their layout in memory."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from .torch_private import storage_of, tree_leaves

T = TypeVar("T")
_PLAIN = {type(None), bool, int, float, str}


def instances_in(kind: type[T], tree: Any) -> Iterator[T]:
    """Yield the instances of a type in a value: the value itself, or those in its tuples, lists, dicts and slices."""
    if isinstance(tree, kind):
        yield tree
        return
    if type(tree) in _PLAIN:
        return
    if type(tree) in (tuple, list, dict):  # `tree_leaves` knows more containers, and takes ten times as long
        for part in tree.values() if type(tree) is dict else tree:
            yield from instances_in(kind, part)
        return
    for leaf in tree_leaves(tree):
        if isinstance(leaf, kind):
            yield leaf
        elif isinstance(leaf, slice):
            yield from instances_in(kind, (leaf.start, leaf.stop, leaf.step))
        elif isinstance(leaf, (tuple, list)):  # a subclass, which PyTorch treats as a leaf
            yield from instances_in(kind, [*leaf])
        elif isinstance(leaf, dict):
            yield from instances_in(kind, [*leaf.values()])


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """Yield the tensors of an argument or a result: itself, or those in its tuples, lists, dicts and slices."""
    return instances_in(Tensor, tree)


def map_instances(kind: type[T], function: Callable[[T], Any], tree: Any) -> Any:
    """Return copies of nested tuples, lists and dicts, with each instance of a type replaced by the function's result.

    PyTorch's `tree_map_only` takes ten times as long, and a diagnosis replays thousands of operations.
    """
    if isinstance(tree, kind):
        return function(tree)
    if type(tree) in (tuple, list):
        return type(tree)(
            [  # most parts are no containers, and a call for each would take most of the time
                function(part) if isinstance(part, kind) else
                map_instances(kind, function, part) if type(part) in (tuple, list, dict) else part
                for part in tree
            ]
        )  # fmt: skip
    if type(tree) is dict:
        return {key: map_instances(kind, function, part) for key, part in tree.items()}
    return tree


class Layout(NamedTuple):
    """The layout of a tensor in memory at one moment.

    Attributes:
        shape, stride: one integer per axis; strides in elements.
        offset: elements of the storage before the tensor's first one.
        storage: identity of the storage; tensors with the same identity share memory.
        dtype: of the elements.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage: int
    dtype: torch.dtype


def shape_stride_offset(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Read (shape, stride, offset) now: a later `transpose_` may change them."""
    try:
        return tensor.shape, tensor.stride(), int(tensor.storage_offset())
    except (RuntimeError, NotImplementedError):  # a sparse tensor has no strides, a nested one no shape
        return () if tensor.is_nested else tensor.shape, (), 0


def layout_of(tensor: Tensor) -> Layout:
    """Return the current layout of a tensor."""
    shape, stride, offset = shape_stride_offset(tensor)
    return Layout(tuple(shape), stride, offset, storage_of(tensor), tensor.dtype)
