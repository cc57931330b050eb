"""Find an operation whose tensors are on two devices, which fails where the second is a GPU."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
# What moves elements from device to device, and what takes indices from the CPU.
ALLOWED = {aten._to_copy, aten.copy_, aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}


def tensors_of(value: Any) -> list[Tensor]:
    """Return the tensors in nested tuples, lists and dicts."""
    return [one for one in tree_leaves(value) if isinstance(one, Tensor)]


def prepare() -> None:
    """Let PyTorch import what the device meta needs, which takes seconds, before an answer's time is measured."""
    x = torch.empty(2, 2, device="meta")
    (x @ x).masked_fill(x > 0, 0.0)


class MixedDevices(RuntimeError):
    """An operation takes tensors on two devices."""


class OneDevice(TorchDispatchMode):
    """While it is on, an operation on tensors of two devices raises MixedDevices; numbers may be on any."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tensors = [one for one in tensors_of((args, kwargs)) if one.ndim]
        if len({one.device for one in tensors}) > 1 and func.overloadpacket not in ALLOWED:
            raise MixedDevices(f"`{func.overloadpacket.__name__}` takes tensors on two devices")
        return func(*args, **(kwargs or {}))
