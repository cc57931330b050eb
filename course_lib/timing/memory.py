"""Measure the most memory that PyTorch's allocator gives a function at one time."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.profiler import ProfilerActivity, profile


def peak_bytes(run: Callable[[], object], device: str = "cpu") -> int:
    """Return the largest number of bytes that a function holds at one time, in addition to those held before.

    On the CPU the profiler records every allocation and every release, and they are added up in order; on CUDA the
    allocator keeps the count itself. On the CPU, memory that a library below PyTorch allocates for itself (the
    workspace of a matrix product) is not counted.

    Args:
        run: is called once; its result counts and is then discarded.
        device: "cpu" or "cuda", the device whose memory is measured.

    Returns:
        Bytes.

    Example:
        >>> peak_bytes(lambda: torch.zeros(1000).exp())  # two tensors of 4000 bytes
        8000
    """
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    held = peak = 0
    for change in _memory_changes(run):
        held += change
        peak = max(peak, held)
    return peak


def _memory_changes(run: Callable[[], object]) -> list[int]:
    """Return the bytes of each allocation on the CPU, in order of time; a release is negative."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise PyTorch 2.13's profiler writes two lines to stderr
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    with TemporaryDirectory() as folder:
        # Of the profiler's public interfaces, only the trace file holds single allocations.
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    events = [event for event in events if event.get("name") == "[memory]"]
    return [event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])]
