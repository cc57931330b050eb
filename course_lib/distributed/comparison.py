"""One process's part of distributed attention, compared with the whole: what it holds, computes, sends and caches."""

from copy import deepcopy
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode

from course_lib.attention import KVCache
from course_lib.tracing import DispatchWatch, tensors_in, torch_private

from .manual_shards import Form, Splittable, assign_heads, count_heads, shard
from .mesh_placement import place_on_mesh

TOLERANCE = 1e-12  # in float64
NAMESPACES = ("_c10d_functional", "c10d")  # of PyTorch's operations between processes
LOCAL = ("wait_tensor", "_wrap_tensor_autograd")  # in the same namespaces, but they send nothing


class Communication(NamedTuple):
    """One operation between all processes, such as "all_reduce", with shape and bytes of the tensor that each gives.

    What is sent over the network depends on the algorithm: in a ring of n devices each sends 2 (n - 1) / n of it.
    """

    operation: str
    shape: tuple[int, ...]
    nbytes: int


class CommunicationLog(DispatchWatch):
    """While it is entered, records every operation between processes, those of the backward pass included."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Communication] = []

    def call(self, func: torch_private.OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Let DTensor handle the operation first, then record what it calls."""
        if any(isinstance(tensor, DTensor) for tensor in tensors_in((args, kwargs))):
            return NotImplemented
        namespace, _, name = func.name().partition("::")
        name = name.partition(".")[0]
        if namespace in NAMESPACES and name not in LOCAL:
            tensor = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
            operation = "all_reduce" if name == "allreduce_" else name  # the in-place variant has a different name
            self.entries.append(Communication(operation, tuple(tensor.shape), tensor.nbytes))
        return func(*args, **kwargs)


def compare(whole: Splittable, x: Tensor, mesh: DeviceMesh) -> tuple[list[str], bool]:
    """Place a copy of a module on the devices; return lines that compare it with the whole, and whether both agree.

    Args:
        whole: the same on each process, in float64, without bias and dropout.
        x: (batch, token, d_in), the same on each process.
        mesh: one axis of devices.
    """
    device, num_devices = dist.get_rank(), mesh.size()
    part = place_on_mesh(deepcopy(whole), mesh)
    by_hand = shard(whole, device, num_devices)

    whole_x, part_x = (x.clone().requires_grad_() for _ in range(2))
    expected = whole(whole_x)
    output_gradient = torch.linspace(-1, 1, expected.numel(), dtype=x.dtype, device=x.device).view_as(expected)
    expected.backward(output_gradient)
    with CommDebugMode() as forward_count, CommunicationLog() as forward_log:
        output = part(part_x)
        output = output + 0  # waits for an output that is still on its way
    with CommDebugMode() as backward_count, CommunicationLog() as backward_log:
        output.backward(output_gradient)
    decoded, cache, decode_count, decode_log = decode(part, x)

    gradients = shard(with_gradients(whole), device, num_devices)
    verdicts = {
        "output": close(output, expected),
        "gradient of x": close(part_x.grad, whole_x.grad),
        "gradients of weights": all(
            close(mine.grad, other) for mine, other in zip(part.parameters(), gradients.parameters(), strict=True)
        ),
        "cached decoding": close(decoded, expected),
    }
    held = {name.removesuffix(".weight"): local(parameter) for name, parameter in part.named_parameters()}
    as_by_hand = all(torch.equal(a, b) for a, b in zip(held.values(), by_hand.parameters(), strict=True))
    heads, kv_heads = assign_heads(device, num_devices, *count_heads(whole))
    facts = {
        "holds": ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in held.items()),
        "as cut by hand": str(as_by_hand),
        "as one process": ", ".join(f"{name} {same}" for name, same in verdicts.items()),
        "sends forward": summary(forward_count, forward_log),
        "sends backward": summary(backward_count, backward_log),
        "sends per token": summary(decode_count, decode_log),
        "caches per token": f"{cache.nbytes // x.shape[0] // x.shape[1]} bytes",
    }
    lines = [f"  device {device}: {head_names('query head', heads)}, {head_names('kv head', kv_heads)}"]
    lines += [f"    {label:<19}{text}" for label, text in facts.items()]
    return lines, as_by_hand and all(verdicts.values())


def decode(part: Splittable, x: Tensor) -> tuple[Tensor, KVCache, CommDebugMode, CommunicationLog]:
    """Run the tokens one after the other, each device with a cache of its own kv heads.

    Returns the output (batch, token, d_out), the cache, and what was sent for the last token: counted, and logged.
    """
    batch, num_tokens, _ = x.shape
    cache = KVCache(
        batch, part.num_kv_heads, num_tokens, part.head_dim, value_dim=part.value_dim, dtype=x.dtype, device=x.device
    )
    with torch.no_grad():
        outputs = [part(x[:, t : t + 1], cache=cache) for t in range(num_tokens - 1)]
        with CommDebugMode() as count, CommunicationLog() as log:
            outputs.append(part(x[:, -1:], cache=cache))
        return torch.cat(outputs, dim=1), cache, count, log


def with_gradients(module: Form) -> Form:
    """A copy that holds each parameter's gradient instead of its value, so that it can be split like the parameters."""
    copy = deepcopy(module)
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            copy.get_parameter(name).data = parameter.grad
    return copy


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def close(mine: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors differ by at most 1e-12 in each element; a missing gradient counts as different."""
    if mine is None or other is None:
        return False
    mine = local(mine)
    return mine.shape == other.shape and bool(((mine - other).abs() <= TOLERANCE).all())


def head_names(name: str, heads: range) -> str:
    """Consecutive heads in words, such as "query heads 0 to 3"."""
    return f"{name} {heads[0]}" if len(heads) == 1 else f"{name}s {heads[0]} to {heads[-1]}"


def summary(count: CommDebugMode, log: CommunicationLog) -> str:
    """What was sent; the number of operations is PyTorch's count, shapes and bytes are those of the log."""
    names = " and ".join(sorted({entry.operation for entry in log.entries})) or "times nothing"
    sent = ", ".join(f"{entry.shape} = {entry.nbytes:,} bytes" for entry in log.entries)
    return f"{count.get_total_counts()} {names}" + (f": {sent}" if sent else "")
