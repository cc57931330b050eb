"""The same cut by PyTorch: parameters become DTensors, of which each process holds its heads' part."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module

from course_lib.attention.checks import check_divisible

from .shards import heads_of


def spread(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Spread a module's heads over the devices of a mesh: x goes in whole, and the whole output comes out, on each.

    `ColwiseParallel` cuts W by columns, which are the *rows* of an `nn.Linear`'s weight; `RowwiseParallel` cuts by
    rows, which are its columns, and adds up what the devices give. In between each device sees ordinary tensors of its
    own heads, so the module is told how many these are. One kv head can't be cut: each device keeps it whole.

    Args:
        module: a `MultiHeadAttention`, `GroupedQueryAttention`, `MultiQueryAttention` or `LlamaAttention`, with the
            same weights on each process; it is changed in place. Dropout is drawn by each device for its own heads.
        mesh: one axis of devices.

    Returns:
        The module.

    Raises:
        ValueError: a number of devices that does not divide the heads, or the kv heads where there are several.
        TypeError: a module whose heads can't be spread, such as the wrapper of heads.

    Source: Shoeybi et al., "Megatron-LM", 2019, section 3.
    """
    num_devices = mesh.size()
    num_heads, num_kv_heads = heads_of(module)
    check_spread(num_heads, num_kv_heads, num_devices)

    plan = {"q_proj": ColwiseParallel(), "out_proj": RowwiseParallel()}
    if num_kv_heads > 1:
        plan |= {"k_proj": ColwiseParallel(), "v_proj": ColwiseParallel()}
    else:
        for projection in (module.k_proj, module.v_proj):
            keep_whole(projection, mesh)
    parallelize_module(module, mesh, plan)
    same_x = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    parallelize_module(module, mesh, same_x)  # said once, so the gradient of x is added up once

    kept = max(1, num_kv_heads // num_devices)  # kv heads of this device
    module.num_heads = num_heads // num_devices  # what view asks for
    module.k_proj.out_features = kept * module.head_dim  # what a cache is checked against
    if hasattr(module, "num_kv_heads"):
        module.num_kv_heads = kept
    return module


def keep_whole(projection: nn.Linear, mesh: DeviceMesh) -> None:
    """Let every device compute a whole projection, and train all its copies alike.

    The heads of one device give only their part of its gradient; without the sum over devices the copies would part.

    Args:
        projection: with the same weights on each process.
        mesh: one axis of devices.
    """

    def add_up(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=mesh.get_group())
        return gradient

    projection.register_forward_pre_hook(lambda _, inputs: inputs[0].to_local(grad_placements=[Partial()]))
    for parameter in projection.parameters():
        parameter.register_hook(add_up)


def check_spread(num_heads: int, num_kv_heads: int, num_devices: int) -> None:
    """Refuse heads that can't be dealt out, or kv heads of which there are several but not enough."""
    check_divisible("num_heads", num_heads, "num_devices", num_devices, remedy=", or a num_devices that divides it")
    if num_kv_heads > 1:
        remedy = ", or 1, which each device keeps whole"
        check_divisible("num_kv_heads", num_kv_heads, "num_devices", num_devices, remedy=remedy)
