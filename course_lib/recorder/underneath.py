"""What PyTorch runs for one call of the code: the clone in a reshape, the expand with stride 0 in a broadcast."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from .call import DEVICES, Call, layout_of, storage_of, tensors_in
from .effects import COPIES


@dataclass(frozen=True)
class Underneath:
    """One operation of PyTorch's own.

    Attributes:
        op: its name there: "clone", "expand", "bmm".
        shape, stride: of its result.
        effect: "view", "copy", "in-place" or "compute", as in a `Step`.
        nbytes: bytes of new memory that it took; 0 for a view.
    """

    op: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    effect: str
    nbytes: int


def run_underneath(call: Call) -> tuple[Underneath, ...]:
    """Run a recorded call once more and note what reaches PyTorch's kernels.

    It runs on the tensors that it got then, in the same gradient, inference and autocast mode, with its own random
    numbers; a call that changes a tensor in place runs on copies laid out alike.

    Args:
        call: as it was noted.

    Returns:
        The operations in order, one entry a tensor that they gave; none for a call that can't be run twice, such as
        `torch.autograd.grad`, which frees the graph it walks.
    """
    grad, inference, autocast = call.state
    then = dict(autocast)
    mode = _Kernels()
    args, kwargs = (call.args, call.kwargs)
    with ExitStack() as stack:
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(torch.random.fork_rng(devices=_cuda_devices(call)))
        stack.enter_context(torch.inference_mode(inference))
        stack.enter_context(torch.set_grad_enabled(grad))
        for device in DEVICES:
            if device in then or torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, dtype=then.get(device), enabled=device in then))
        if any(result is given for result in call.results for given in tensors_in((args, kwargs))):
            args, kwargs = _copies(args, kwargs)
        stack.enter_context(mode)
        with suppress(RuntimeError):
            call.func(*args, **kwargs)
    return tuple(mode.found)


class _Kernels(TorchDispatchMode):
    """Notes every operation that reaches PyTorch's dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Underneath] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        op = func.overloadpacket.__name__
        known = {storage_of(tensor) for tensor in tensors_in((args, kwargs or {}))}
        for tensor in tensors_in(result):
            layout = layout_of(tensor)
            new = layout.storage not in known
            if func._schema.is_mutable:
                effect = "in-place"
            elif not new:
                effect = "view"
            else:
                effect = "copy" if op in COPIES else "compute"
            nbytes = tensor.numel() * tensor.element_size() if new else 0
            self.found.append(Underneath(op, layout.shape, layout.stride, effect, nbytes))
        return result


def _copies(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Copies of the tensors in args and kwargs, in copies of their memory, so that views stay views of each other."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(tensor: Tensor) -> Tensor:
        layout = layout_of(tensor)
        if layout.storage not in storages:
            storages[layout.storage] = tensor.detach().untyped_storage().clone()
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(storages[layout.storage], layout.offset, layout.shape, layout.stride)

    return tree_map_only(Tensor, copy, (args, kwargs))


def _cuda_devices(call: Call) -> list[int]:
    if not torch.cuda.is_available():  # tensors may pretend to be there
        return []
    return sorted({tensor.get_device() for tensor in tensors_in((call.args, call.kwargs)) if tensor.is_cuda})
