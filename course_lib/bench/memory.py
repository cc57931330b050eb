"""How much memory a function takes at most, by the bytes that PyTorch's allocator gives out: exact everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def peak_bytes(run: Callable[[], object], device: str = "cpu") -> int:
    """The largest number of bytes that run holds at one time, on top of what is there before.

    On the CPU every allocation and every release is recorded and added up; on CUDA the allocator counts them itself.
    What a library under PyTorch takes for itself (the work space of a matrix product) is not seen on the CPU.

    Args:
        run: is called once; its result counts and is dropped.
        device: "cpu" or "cuda", whose memory is meant.

    Returns:
        Bytes.

    Example:
        >>> peak_bytes(lambda: torch.zeros(1000) + 1)  # two tensors of 4000 bytes
        8000
    """
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch 2.13's profiler writes two lines to stderr otherwise
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()  # negative where memory is given back
        peak = max(peak, held)
    return peak
