"""Find the ATen operations that PyTorch runs for one call, such as the clone in a reshape."""

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.tracing import DispatchWatch, layout_of, map_instances, storage_of, tensors_in, torch_private

from .call import AUTOCAST_DEVICES, Call
from .effects import COPIES


@dataclass(frozen=True)
class AtenOp:
    """One ATen operation of PyTorch.

    Attributes:
        op: its name, such as "clone", "expand" or "bmm".
        shape, stride: of its result.
        effect: "view", "copy", "in-place" or "compute", as in a `Step`.
        nbytes: bytes of new memory that it took; 0 for a view.
    """

    op: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    effect: str
    nbytes: int


def aten_ops_of(call: Call) -> tuple[AtenOp, ...]:
    """Run a recorded call once more and note what reaches PyTorch's kernels, one entry per tensor that it returned.

    It runs on the same tensors, in the same gradient, inference and autocast mode, with separate random numbers; a call
    that changes a tensor in place runs on copies with the same layout. A call that cannot run twice, such as
    `torch.autograd.grad`, which frees the graph it walks, has no operations.
    """
    grad, inference, autocast = call.state
    dtypes = dict(autocast)
    watch = _AtenWatch()
    args, kwargs = call.args, call.kwargs
    with ExitStack() as stack:
        stack.enter_context(torch_private.without_function_modes())
        # Fake tensors may claim to be on CUDA on a machine without it.
        devices = {tensor.get_device() for tensor in call.tensors if tensor.is_cuda and torch.cuda.is_available()}
        stack.enter_context(torch.random.fork_rng(devices=sorted(devices)))
        stack.enter_context(torch.inference_mode(inference))
        stack.enter_context(torch.set_grad_enabled(grad))
        for device in AUTOCAST_DEVICES:
            if device in dtypes or torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, dtype=dtypes.get(device), enabled=device in dtypes))
        if any(result is tensor for result in call.results for tensor in call.tensors):
            args, kwargs = _copies(args, kwargs)
        stack.enter_context(watch)
        with suppress(RuntimeError):
            call.func(*args, **kwargs)
    return tuple(watch.ops)


class _AtenWatch(DispatchWatch):
    def __init__(self) -> None:
        super().__init__()
        self.ops: list[AtenOp] = []

    def call(self, func: torch_private.OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        op = torch_private.operation_name(func)
        known = {storage_of(tensor) for tensor in tensors_in((args, kwargs))}
        for tensor in tensors_in(result):
            layout = layout_of(tensor)
            new = layout.storage not in known
            if torch_private.is_mutable(func):
                effect = "in-place"
            elif not new:
                effect = "view"
            else:
                effect = "copy" if op in COPIES else "compute"
            nbytes = tensor.numel() * tensor.element_size() if new else 0
            self.ops.append(AtenOp(op, layout.shape, layout.stride, effect, nbytes))
        return result


def _copies(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Copy the storages of the tensors in args and kwargs, so that views stay views of each other.

    `copy.deepcopy` does so for ordinary tensors only: it fails on fake ones and changes strides on the meta device.
    """
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(tensor: Tensor) -> Tensor:
        layout = layout_of(tensor)
        if layout.storage not in storages:
            storages[layout.storage] = tensor.detach().untyped_storage().clone()
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(storages[layout.storage], layout.offset, layout.shape, layout.stride)

    return map_instances(Tensor, copy, (args, kwargs))
