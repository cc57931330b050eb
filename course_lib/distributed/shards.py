"""What each device holds when heads are spread over devices, cut by hand: blocks of rows, of out_proj columns."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.attention.checks import check_divisible, check_positive


class Share(NamedTuple):
    """The heads that one device computes.

    Attributes:
        heads: query heads.
        kv_heads: heads of keys and values, all that its query heads read and no other.
    """

    heads: range
    kv_heads: range


def share_of(device: int, num_devices: int, num_heads: int, num_kv_heads: int) -> Share:
    """Neighbouring heads to each device, with the kv heads that they read.

        heads    = device * h to (device + 1) * h - 1,  h = num_heads / num_devices
        kv heads = likewise with g = num_kv_heads / num_devices; where there are fewer kv heads than devices, one kv
                   head, held by num_devices / num_kv_heads devices

    Args:
        device: its number, from 0.
        num_devices: number of devices.
        num_heads: number of query heads; num_devices divides it.
        num_kv_heads: number of heads of keys and values; divides num_devices, or is divided by it.

    Returns:
        Share.

    Raises:
        ValueError: a size below 1, a device that there isn't, heads that can't be dealt out whole.
        TypeError: a size that is no whole number.

    Source: Shoeybi et al., "Megatron-LM", 2019, section 3; for fewer kv heads than devices Ainslie et al., "GQA", 2023,
    section 2.2.

    Example:
        >>> share_of(1, 2, num_heads=4, num_kv_heads=1)
        Share(heads=range(2, 4), kv_heads=range(0, 1))
    """
    check_positive(num_devices=num_devices, num_heads=num_heads, num_kv_heads=num_kv_heads)
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"device must be a whole number, got {device!r} ({type(device).__name__}).")
    if not 0 <= device < num_devices:
        raise ValueError(f"device must be at least 0 and less than num_devices={num_devices}, got {device}.")
    check_divisible("num_heads", num_heads, "num_devices", num_devices, remedy=", or a num_devices that divides it")
    if num_devices % num_kv_heads:
        remedy = ", or a num_devices that divides it or is a multiple of it"
        check_divisible("num_kv_heads", num_kv_heads, "num_devices", num_devices, remedy=remedy)
    first = device * num_kv_heads // num_devices
    kv_heads = range(first, first + max(1, num_kv_heads // num_devices))
    per_device = num_heads // num_devices
    return Share(range(device * per_device, (device + 1) * per_device), kv_heads)


def shard(module: nn.Module, device: int, num_devices: int) -> nn.Module:
    """One device's part of a module: an ordinary, smaller module of the same form.

        q_proj, k_proj, v_proj: the rows of the device's heads;  out_proj: the columns of its heads
        whole(x) = shard(whole, 0, n)(x) + ... + shard(whole, n - 1, n)(x)

    The bias of out_proj is added once, so device 0 has it; on the others it is zero and is not trained.

    Args:
        module: a `MultiHeadAttention`, `GroupedQueryAttention`, `MultiQueryAttention` or `LlamaAttention`.
        device: its number, from 0.
        num_devices: number of devices.

    Returns:
        A new module with copies of the weights, as (rows, columns): q_proj (heads of the device * head_dim, d_in), ...

    Raises:
        ValueError: heads that `share_of` can't deal out, a module without out_proj.
        TypeError: a module without q_proj, k_proj and v_proj, such as the wrapper of heads.

    Source: Shoeybi et al., "Megatron-LM", 2019, section 3.

    Example:
        >>> shard(MultiHeadAttention(3, 8, num_heads=4), 0, 2).out_proj.weight.shape
        torch.Size([8, 4])
    """
    heads, kv_heads = share_of(device, num_devices, *heads_of(module))
    part = deepcopy(module)
    part.num_heads = len(heads)
    if hasattr(part, "num_kv_heads"):
        part.num_kv_heads = len(kv_heads)
    part.q_proj = _rows(module.q_proj, heads, module.head_dim)
    part.k_proj = _rows(module.k_proj, kv_heads, module.head_dim)
    part.v_proj = _rows(module.v_proj, kv_heads, module.value_dim)
    part.out_proj = _columns(module.out_proj, heads, module.value_dim, with_bias=device == 0)
    return part.train(module.training)


def heads_of(module: nn.Module) -> tuple[int, int]:
    """Query heads and kv heads of a module whose heads can be spread; refuses any other.

    Args:
        module: a `MultiHeadAttention`, `GroupedQueryAttention`, `MultiQueryAttention` or `LlamaAttention`.

    Returns:
        (num_heads, num_kv_heads).

    Raises:
        ValueError: a module without out_proj.
        TypeError: a module without q_proj, k_proj and v_proj, such as the wrapper of heads.
    """
    projections = [getattr(module, name, None) for name in ("q_proj", "k_proj", "v_proj")]
    if not all(isinstance(one, nn.Linear) for one in projections) or not hasattr(module, "num_heads"):
        raise TypeError(
            f"module must have all heads in one q_proj, k_proj and v_proj, got {type(module).__name__}: carry a "
            "wrapper's weights over with wrapper_to_split."
        )
    if module.out_proj is None:
        raise ValueError(
            "module has out_proj=None, so the devices' outputs could not be added up: build it with out_proj=True."
        )
    return module.num_heads, module.k_proj.out_features // module.head_dim


def span(heads: range, width: int) -> slice:
    """The rows or columns of neighbouring heads, width each."""
    return slice(heads.start * width, heads.stop * width)


def _rows(projection: nn.Linear, heads: range, width: int) -> nn.Linear:
    rows = span(heads, width)
    return _linear(projection.weight[rows], None if projection.bias is None else projection.bias[rows])


def _columns(projection: nn.Linear, heads: range, width: int, *, with_bias: bool) -> nn.Linear:
    bias = projection.bias
    if bias is not None and not with_bias:
        bias = torch.zeros_like(bias)
    return _linear(projection.weight[:, span(heads, width)], bias)


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A Linear with copies of a weight and a bias."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = nn.Parameter(weight.detach().clone(), requires_grad=weight.requires_grad)
    if bias is not None:
        linear.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
    return linear
