"""What each device holds when heads are split over devices, by hand: blocks of rows, and of columns of out_proj."""

from copy import deepcopy
from typing import NamedTuple, TypeAlias, TypeVar

from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    check_divisible,
    check_positive,
)

Splittable: TypeAlias = MultiHeadAttention | GroupedQueryAttention | MultiQueryAttention | LlamaAttention
Form = TypeVar("Form", bound=Splittable)


class DeviceHeads(NamedTuple):
    """The heads that one device computes.

    Attributes:
        heads: query heads.
        kv_heads: heads of keys and values: exactly those that these query heads read.
    """

    heads: range
    kv_heads: range


def assign_heads(device: int, num_devices: int, num_heads: int, num_kv_heads: int) -> DeviceHeads:
    """Assign consecutive heads to a device, together with the kv heads that they read.

        heads    = device * h to (device + 1) * h - 1,  h = num_heads / num_devices
        kv heads = likewise with g = num_kv_heads / num_devices; if there are fewer kv heads than devices, one kv
                   head, held by num_devices / num_kv_heads devices

    Args:
        device: index of the device, from 0.
        num_devices: number of devices.
        num_heads: number of query heads; num_devices divides it.
        num_kv_heads: number of heads of keys and values; divides num_devices, or is divided by it.

    Returns:
        DeviceHeads.

    Raises:
        ValueError: a size below 1, a device that does not exist, heads that can't be assigned whole.
        TypeError: a size that is not an integer.

    Source: Shoeybi et al., "Megatron-LM", 2019, section 3; for fewer kv heads than devices Ainslie et al., "GQA", 2023,
    section 2.2.

    Example:
        >>> assign_heads(1, 2, num_heads=4, num_kv_heads=1)
        DeviceHeads(heads=range(2, 4), kv_heads=range(0, 1))
    """
    check_positive(num_devices=num_devices, num_heads=num_heads, num_kv_heads=num_kv_heads)
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"device must be an integer, got {device!r} ({type(device).__name__}).")
    if not 0 <= device < num_devices:
        raise ValueError(f"device must be at least 0 and less than num_devices={num_devices}, got {device}.")
    check_divisible("num_heads", num_heads, "num_devices", num_devices, remedy=", or a num_devices that divides it")
    if num_devices % num_kv_heads:
        remedy = ", or a num_devices that divides it or is a multiple of it"
        check_divisible("num_kv_heads", num_kv_heads, "num_devices", num_devices, remedy=remedy)
    first = device * num_kv_heads // num_devices
    kv_heads = range(first, first + max(1, num_kv_heads // num_devices))
    per_device = num_heads // num_devices
    return DeviceHeads(range(device * per_device, (device + 1) * per_device), kv_heads)


def shard(module: Form, device: int, num_devices: int) -> Form:
    """One device's part of a module: an ordinary, smaller module of the same form.

        q_proj, k_proj, v_proj, sink_logits: the rows of the device's heads;  out_proj: the columns of its heads
        whole(x) = shard(whole, 0, n)(x) + ... + shard(whole, n - 1, n)(x)

    The bias of out_proj must be added once, so device 0 has it; on the others it is zero and is not trained.

    Args:
        module: a `MultiHeadAttention`, `GroupedQueryAttention`, `MultiQueryAttention` or `LlamaAttention`.
        device: index of the device, from 0.
        num_devices: number of devices.

    Returns:
        A new module with copies of the weights, as (rows, columns): q_proj (heads of the device * head_dim, d_in), ...

    Raises:
        ValueError: heads that `assign_heads` refuses, a module without out_proj.
        TypeError: a module without q_proj, k_proj and v_proj, such as the wrapper of heads, or one with a latent.

    Source: Shoeybi et al., "Megatron-LM", 2019, section 3.

    Example:
        >>> shard(MultiHeadAttention(3, 8, num_heads=4), 0, 2).out_proj.weight.shape
        torch.Size([8, 4])
    """
    heads, kv_heads = assign_heads(device, num_devices, *count_heads(module))
    part = deepcopy(module)
    part.num_heads, part.num_kv_heads = len(heads), len(kv_heads)
    part.q_proj = _part(module.q_proj, rows=_slice_of(heads, module.head_dim))
    part.k_proj = _part(module.k_proj, rows=_slice_of(kv_heads, module.head_dim))
    part.v_proj = _part(module.v_proj, rows=_slice_of(kv_heads, module.value_dim))
    part.out_proj = _part(output_projection(module), columns=_slice_of(heads, module.value_dim))
    keep_own_sinks(part, heads)
    if part.out_proj.bias is not None and device > 0:  # the outputs are added up, so only one may hold the bias
        part.out_proj.bias.requires_grad_(False).zero_()
    return part


def count_heads(module: Splittable) -> tuple[int, int]:
    """Return (num_heads, num_kv_heads); refuse a module whose heads can't be split over devices."""
    projections = [getattr(module, name, None) for name in ("q_proj", "k_proj", "v_proj")]
    if not all(isinstance(projection, nn.Linear) for projection in projections) or not hasattr(module, "num_heads"):
        raise TypeError(
            f"module must have all heads in one q_proj, k_proj and v_proj, got {type(module).__name__}: carry a "
            "wrapper's weights over with wrapper_to_split."
        )
    if hasattr(module, "latent_proj"):
        raise TypeError(
            f"module is {type(module).__name__}, and its latent serves all heads, so that each device would have to "
            "keep all of it: split the texts over the devices instead."
        )
    output_projection(module)
    return module.num_heads, module.k_proj.out_features // module.head_dim


def keep_own_sinks(module: Splittable, heads: range) -> None:
    """Keep of the module's learned sinks, if it has any, those of a device's query heads."""
    if isinstance(module, LlamaAttention) and module.sink_logits is not None:
        module.sink_logits.data = module.sink_logits.data[_slice_of(heads, 1)].clone()


def output_projection(module: Splittable) -> nn.Linear:
    """The module's out_proj; ValueError if it has none."""
    if module.out_proj is None:
        raise ValueError(
            "module has out_proj=None, so the devices' outputs could not be added up: build it with out_proj=True."
        )
    return module.out_proj


def _slice_of(heads: range, width: int) -> slice:
    """Return the rows or columns of consecutive heads, each of the given width."""
    return slice(heads.start * width, heads.stop * width)


def _part(projection: nn.Linear, *, rows: slice = slice(None), columns: slice = slice(None)) -> nn.Linear:
    """Return a Linear with copies of some rows of a weight and its bias, or of some columns of the weight."""
    part = deepcopy(projection)
    part.weight.data = part.weight.data[rows, columns].clone()
    part.out_features, part.in_features = part.weight.shape
    if part.bias is not None:
        part.bias.data = part.bias.data[rows].clone()
    return part
