"""Heads spread over several devices: cut by hand, cut by PyTorch's DTensor, and the script that compares the two.

`shards` is torch alone and runs in one process. `spread` needs a process group; `tensor_parallel` is the script that
`torchrun` starts, `launch` starts it from a notebook.
"""

from .launch import launch
from .shards import shard, share_of

__all__ = ["launch", "shard", "share_of"]
