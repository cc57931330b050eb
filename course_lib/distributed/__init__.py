"""Heads placed on several devices: split by hand, split by PyTorch's DTensor, and the script that compares the two.

`shard` needs nothing but torch and runs in one process. `place_on_mesh` needs a process group; `launch` starts the
script `course_lib.distributed.tensor_parallel` on several processes, as `torchrun` does.
"""

from .launcher import launch
from .manual_shards import DeviceHeads, assign_heads, shard
from .mesh_placement import check_placement, place_on_mesh

__all__ = ["DeviceHeads", "assign_heads", "check_placement", "launch", "place_on_mesh", "shard"]
