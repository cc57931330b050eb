"""What is noted while the recorded code runs: as little as possible, so that the run is hardly slower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

DEVICES = ("cpu", "cuda", "mps", "xpu")  # those that know autocast


class Layout(NamedTuple):
    """How a tensor lay in memory at one moment.

    Attributes:
        shape, stride: one number an axis, in elements.
        offset: elements of the storage before the first one.
        storage: identity of the storage; two tensors that share it share memory.
        dtype: of the elements.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage: int
    dtype: torch.dtype


class Call(NamedTuple):
    """One call of a PyTorch function.

    Attributes:
        func, args, kwargs: what was called with what.
        results: the tensors it gave, or the one it changed.
        places: (shape, stride, offset) of each result, right after the call.
        code, instruction: the author's code object and the byte in it that made the call.
        module: the innermost module that was running.
        state: gradient mode, inference mode, autocast, as `running_state` gives them.
    """

    func: Callable[..., Any]
    args: tuple
    kwargs: dict[str, Any]
    results: tuple[Tensor, ...]
    places: tuple[tuple, ...]
    code: CodeType | None
    instruction: int
    module: nn.Module | None
    state: tuple

    def layout(self, part: int) -> Layout:
        """How one of the results lay in memory right after the call."""
        shape, stride, offset = self.places[part]
        result = self.results[part]
        return Layout(tuple(shape), stride, offset, storage_of(result), result.dtype)

    @property
    def op(self) -> str:
        """The operation in the words of the code: `view`, `matmul`, `T`; `x[0]` is `getitem`."""
        name = getattr(self.func, "__name__", type(self.func).__name__)
        if name == "__get__":  # a property such as x.T; x.grad isn't the function torch.autograd.grad
            name = self.func.__self__.__name__
            return "property grad" if name == "grad" else name
        return name[2:-2] if name.startswith("__") and name.endswith("__") else name


@dataclass
class Run:
    """All that was noted in one run.

    Attributes:
        calls: in order; plain tuples of a Call's parts, which are quicker to make.
        labels: (number of calls before it, tensor, name) of each tensor that was given a name.
        roots: the outermost modules that ran; the recorded module itself, if it is one.
    """

    calls: list[tuple] = field(default_factory=list)
    labels: list[tuple[int, Tensor, str]] = field(default_factory=list)
    roots: list[nn.Module] = field(default_factory=list)


def place_in_memory(tensor: Tensor) -> tuple:
    """Read (shape, stride, offset) now; a later `transpose_` may change them."""
    try:
        return tensor.shape, tensor.stride(), tensor.storage_offset()
    except (RuntimeError, NotImplementedError):  # a sparse tensor has no strides, a nested one no shape
        return () if tensor.is_nested else tensor.shape, (), 0


def storage_of(tensor: Tensor) -> int:
    """An identity of the memory of a tensor, its own as long as the tensor lives."""
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def layout_of(tensor: Tensor) -> Layout:
    """Read how a tensor lies in memory now."""
    shape, stride, offset = place_in_memory(tensor)
    return Layout(tuple(shape), stride, offset, storage_of(tensor), tensor.dtype)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of an argument or a result: itself, or those in its tuples, lists, slices and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, slice):
        yield from tensors_in((value.start, value.stop, value.step))


def running_state() -> tuple:
    """What decides how PyTorch runs a call, beside its arguments: gradients, inference mode, autocast."""
    autocast: tuple = ()
    if torch._C._is_any_autocast_enabled():
        autocast = tuple((d, torch.get_autocast_dtype(d)) for d in DEVICES if torch.is_autocast_enabled(d))
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast
