"""The processes that torchrun started: how they meet, and on what each computes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist


@contextmanager
def process_group(timeout: float = 60.0) -> Iterator[torch.device]:
    """Meet the other processes, and part at the end; one process that torchrun did not start is a group of its own.

    Args:
        timeout: seconds that a process waits for the others.

    Yields:
        The device that this process computes on.
    """
    device = device_of_process()
    options = {"timeout": timedelta(seconds=timeout)}
    if device.type == "cuda":
        torch.cuda.set_device(device)
        options["device_id"] = device
    if "WORLD_SIZE" not in os.environ:
        options |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", **options)
    yield device
    # Before PyTorch 2.8, gloo's threads may still need the interpreter that the line after this one holds on to.
    time.sleep(0.2)
    dist.destroy_process_group()


def device_of_process() -> torch.device:
    """A GPU of its own for each process of this machine, if there are enough; else the CPU for all of them.

    COURSE_DEVICE=cpu, which the kernel "Attention (CPU)" sets, leaves GPUs alone.
    """
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    wanted = os.environ.get("COURSE_DEVICE", "cuda").startswith("cuda")
    if wanted and dist.is_nccl_available() and torch.cuda.device_count() >= here:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")
