"""The same split by PyTorch: parameters become DTensors, of which each process holds the part of its heads."""

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module

from course_lib.attention import check_divisible

from .manual_shards import Form, assign_heads, count_heads, keep_own_sinks


def place_on_mesh(module: Form, mesh: DeviceMesh) -> Form:
    """Distribute a module's heads over the devices of a mesh; each device gets the whole x and the whole output.

    `ColwiseParallel` splits W by columns, which are the *rows* of an `nn.Linear`'s weight; `RowwiseParallel` splits by
    rows, which are its columns, and adds up the outputs of the devices. Between the two each device sees ordinary
    tensors of its own heads, so the module must know how many these are, and has the learned sinks of no others. A
    single kv head can't be split: each device keeps it whole.

    Args:
        module: a `MultiHeadAttention`, `GroupedQueryAttention`, `MultiQueryAttention` or `LlamaAttention`, with the
            same weights on each process; it is changed in place. Dropout is drawn by each device for its own heads.
        mesh: one axis of devices.

    Returns:
        The module.

    Raises:
        ValueError: a number of devices that does not divide the heads, or the kv heads if there are several.
        TypeError: a module whose heads can't be split, such as the wrapper of heads.

    Source: Shoeybi et al., "Megatron-LM", 2019, section 3.
    """
    num_devices = mesh.size()
    num_heads, num_kv_heads = count_heads(module)
    check_placement(num_heads, num_kv_heads, num_devices)

    plan = {"q_proj": ColwiseParallel(), "out_proj": RowwiseParallel()}
    if num_kv_heads > 1:
        plan |= {"k_proj": ColwiseParallel(), "v_proj": ColwiseParallel()}
    else:
        for projection in (module.k_proj, module.v_proj):
            keep_whole(projection, mesh)
    parallelize_module(module, mesh, plan)
    same_x = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    parallelize_module(module, mesh, same_x)  # once for the module, so that the gradient of x is added up once

    keep_own_sinks(module, assign_heads(mesh.get_local_rank(), num_devices, num_heads, num_kv_heads).heads)
    module.num_heads = num_heads // num_devices  # the sizes that view and the cache need
    module.num_kv_heads = max(1, num_kv_heads // num_devices)
    return module


def keep_whole(projection: nn.Linear, mesh: DeviceMesh) -> None:
    """Let every device compute a whole projection, and train all its copies alike.

    The heads of one device contribute only part of its gradient; without the sum over devices the copies would diverge.
    """

    def add_up(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=mesh.get_group())
        return gradient

    projection.register_forward_pre_hook(lambda _, inputs: inputs[0].to_local(grad_placements=[Partial()]))
    for parameter in projection.parameters():
        parameter.register_hook(add_up)


def check_placement(num_heads: int, num_kv_heads: int, num_devices: int) -> None:
    """Refuse heads that the devices can't take in equal numbers.

    Args:
        num_heads: number of query heads; num_devices must divide it.
        num_kv_heads: number of heads of keys and values; num_devices must divide it, unless there is only one.
        num_devices: number of devices.

    Raises:
        ValueError: they can't; the message names the nearest numbers that can.
    """
    check_divisible("num_heads", num_heads, "num_devices", num_devices, remedy=", or a num_devices that divides it")
    if num_kv_heads > 1:
        remedy = ", or 1, which each device keeps whole"
        check_divisible("num_kv_heads", num_kv_heads, "num_devices", num_devices, remedy=remedy)
