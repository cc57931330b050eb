"""Note as little as possible of each call, so that the recorded code is hardly slowed down."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, is_grad_enabled, is_inference_mode_enabled, nn

from course_lib.tracing import Layout, storage_of, tensors_in, torch_private

from .snapshots import Snapshots

any_autocast = torch_private.any_autocast
AUTOCAST_DEVICES = ("cpu", "cuda", "mps", "xpu")


class Call(NamedTuple):
    """One call of a PyTorch function.

    Attributes:
        func, args, kwargs: the function and its arguments.
        results: the tensors it returned, or the one it changed.
        layouts: (shape, stride, offset) of each result right after the call.
        code, instruction: the author's code object, and the instruction in it that made the call.
        module: the innermost module that was running.
        state: gradient mode, inference mode and autocast, as `running_state` returns them.
    """

    func: Callable[..., Any]
    args: tuple
    kwargs: dict[str, Any]
    results: tuple[Tensor, ...]
    layouts: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...]
    code: CodeType | None
    instruction: int
    module: nn.Module | None
    state: tuple[bool, bool, tuple]

    def layout(self, part: int) -> Layout:
        """Return the layout of one of the results right after the call."""
        shape, stride, offset = self.layouts[part]
        result = self.results[part]
        return Layout(tuple(shape), stride, offset, storage_of(result), result.dtype)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors among the arguments, without repetition."""
        return tuple({id(tensor): tensor for tensor in tensors_in([*self.args, *self.kwargs.values()])}.values())

    @property
    def op(self) -> str:
        """The operation as it is written in the code: `view`, `matmul`, `T`; `x[0]` is `getitem`."""
        name = getattr(self.func, "__name__", type(self.func).__name__)
        if name == "__get__":  # a property such as x.T; x.grad is not the function torch.autograd.grad
            name = getattr(getattr(self.func, "__self__", None), "__name__", "")
            return "property grad" if name == "grad" else name
        return name[2:-2] if name.startswith("__") and name.endswith("__") else name


@dataclass
class CallLog:
    """The calls and labels that were noted during one run.

    Attributes:
        calls: in order; plain tuples of a Call's fields, which are quicker to make.
        labels: (number of calls before it, tensor, label) for each tensor that was given a label.
        failed: the tensors that were given to calls that raised.
        roots: the outermost modules that ran; the recorded module itself, if it is one.
        snapshots: what was in the memory that calls wrote into.
    """

    calls: list[tuple] = field(default_factory=list)
    labels: list[tuple[int, Tensor, str]] = field(default_factory=list)
    failed: list[Tensor] = field(default_factory=list)
    roots: list[nn.Module] = field(default_factory=list)
    snapshots: Snapshots = field(default_factory=Snapshots)


def running_state() -> tuple[bool, bool, tuple]:
    """Return the modes that decide how PyTorch runs a call: gradients, inference mode, autocast."""
    if not any_autocast():
        return is_grad_enabled(), is_inference_mode_enabled(), ()
    devices = (device for device in AUTOCAST_DEVICES if torch.is_autocast_enabled(device))
    autocast = tuple((device, torch.get_autocast_dtype(device)) for device in devices)
    return is_grad_enabled(), is_inference_mode_enabled(), autocast
