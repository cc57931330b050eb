"""One process's part of spread attention beside the whole: what it holds, computes, sends and keeps."""

from __future__ import annotations

from copy import deepcopy

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode

from course_lib.attention import KVCache

from .shards import heads_of, shard, share_of
from .spread import spread
from .traffic import Traffic

CLOSE = 1e-12  # in 64 bits


def compare(whole: nn.Module, x: Tensor, mesh: DeviceMesh) -> tuple[list[str], bool]:
    """Spread a copy of a module over the devices and hold it against the whole one.

    Args:
        whole: the same on each process, in 64 bits, without bias and dropout.
        x: (batch, token, d_in), the same on each process.
        mesh: one axis of devices.

    Returns:
        Lines that say what was found, and whether everything is the same.
    """
    device, num_devices = dist.get_rank(), mesh.size()
    part = spread(deepcopy(whole), mesh)
    by_hand = shard(whole, device, num_devices)

    whole_x, part_x = (x.clone().requires_grad_() for _ in range(2))
    expected = whole(whole_x)
    steering = torch.linspace(-1, 1, expected.numel(), dtype=x.dtype, device=x.device).view_as(expected)
    expected.backward(steering)
    with CommDebugMode() as counted_forward, Traffic() as forward:
        output = part(part_x)
        output = output + 0  # an output still on its way is waited for
    with CommDebugMode() as counted_backward, Traffic() as backward:
        output.backward(steering)
    decoded, cache, a_token = decode(part, x)

    gradients = shard(gradients_of(whole), device, num_devices)
    verdicts = {
        "output": close(output, expected),
        "gradient of x": close(part_x.grad, whole_x.grad),
        "gradients of weights": all(
            close(here.grad, there) for here, there in zip(part.parameters(), gradients.parameters(), strict=True)
        ),
        "cached decoding": close(decoded, expected),
    }
    held = {name.removesuffix(".weight"): local(parameter) for name, parameter in part.named_parameters()}
    shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in held.items())
    as_cut = all(torch.equal(here, there) for here, there in zip(held.values(), by_hand.parameters(), strict=True))
    heads, kv_heads = share_of(device, num_devices, *heads_of(whole))
    lines = [
        f"  device {device}: {numbered('query head', heads)}, {numbered('kv head', kv_heads)}",
        f"    holds            {shapes}",
        f"    as cut by hand   {as_cut}",
        "    as one process   " + ", ".join(f"{name} {same}" for name, same in verdicts.items()),
        f"    sends forward    {in_words(counted_forward, forward)}",
        f"    sends backward   {in_words(counted_backward, backward)}",
        f"    sends a token    {in_words(*a_token)}",
        f"    keeps a token    {cache.nbytes // x.shape[0] // x.shape[1]} bytes in its cache",
    ]
    return lines, as_cut and all(verdicts.values())


def decode(part: nn.Module, x: Tensor) -> tuple[Tensor, KVCache, tuple[CommDebugMode, Traffic]]:
    """Run the tokens one after the other, each device with a cache of its own kv heads.

    Returns:
        The output (batch, token, d_out), the cache, and what was sent for the last token.
    """
    batch, num_tokens, _ = x.shape
    num_kv_heads = part.k_proj.out_features // part.head_dim
    widths = {"head_dim": part.head_dim, "value_dim": part.value_dim}
    cache = KVCache(batch, num_kv_heads, num_tokens, **widths, dtype=x.dtype, device=x.device)
    with torch.no_grad():
        outputs = [part(x[:, t : t + 1], cache=cache) for t in range(num_tokens - 1)]
        with CommDebugMode() as counted, Traffic() as traffic:
            outputs.append(part(x[:, -1:], cache=cache))
        return torch.cat(outputs, dim=1), cache, (counted, traffic)


def gradients_of(module: nn.Module) -> nn.Module:
    """A copy with each parameter's gradient in its place, so that it can be cut as the parameters are."""
    copy = deepcopy(module)
    for name, parameter in module.named_parameters():
        copy.get_parameter(name).data = parameter.grad
    return copy


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def close(here: Tensor, there: Tensor) -> bool:
    """Whether two tensors differ by at most 1e-12 anywhere."""
    here = local(here)
    return here.shape == there.shape and bool(((here - there).abs() <= CLOSE).all())


def numbered(name: str, heads: range) -> str:
    """Neighbouring heads as one would say them."""
    return f"{name} {heads[0]}" if len(heads) == 1 else f"{name}s {heads[0]} to {heads[-1]}"


def in_words(counted: CommDebugMode, traffic: Traffic) -> str:
    """What was sent; how many times is counted by PyTorch, shapes and bytes are those of `Traffic`."""
    names = " and ".join(sorted({one.operation for one in traffic.sent})) or "times nothing"
    sent = ", ".join(f"{one.shape} = {one.nbytes:,} bytes" for one in traffic.sent)
    return f"{counted.get_total_counts()} {names}" + (f": {sent}" if sent else "")
