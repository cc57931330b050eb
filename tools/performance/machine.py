"""Describe the machine of a benchmark, without names of hosts, users or folders, and measure its limits."""

import os
import platform
from collections.abc import Callable
from datetime import date
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from course_lib.timing import MachineLimits

CPU_INFO = Path("/proc/cpuinfo")  # on Linux; elsewhere Python's own answer is used


def describe_machine() -> dict[str, str | int | None]:
    """Return a description of the machine as plain data; the threads are PyTorch's, the date is YYYY-MM-DD."""
    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": memory_bytes(),
        "gpu": gpu and gpu.name,
        "gpu_memory_bytes": gpu and gpu.total_memory,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "system": platform.system(),
        "date": date.today().isoformat(),
    }


def processor_name() -> str:
    """Return the name of the processor, or its family if the system does not name it."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def memory_bytes() -> int | None:
    """Return the bytes of main memory, or None if the system has no such call (Windows)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def measure_limits(
    device: str, dtypes: tuple[str, ...] = ("float32", "bfloat16"), *, quick: bool = False
) -> list[MachineLimits]:
    """Measure the limits of a device; the best of several rounds counts, because a limit is what can be reached.

    The matrix rate is that of a square product, with the second matrix as it is or transposed, whichever is faster.
    The read rate is that of the sum, the copy rate that of `copy_`, of more float32 elements than any cache holds.
    With `quick`, small sizes and few rounds are enough.
    """
    large = device == "cuda" and not quick
    elements = torch.ones((1 << 20) if quick else (1 << 28 if large else 1 << 26), device=device)
    copied = torch.empty_like(elements)
    work = {"read": lambda: elements.sum(), "copy": lambda: copied.copy_(elements)}
    widths = {}
    for dtype in dtypes:
        slow = device == "cpu" and dtype != "float32"  # a processor may have no instructions for the dtype
        widths[dtype] = width = 256 if quick else (8192 if large else (512 if slow else 2048))
        matrix = torch.ones(width, width, device=device, dtype=getattr(torch, dtype))
        work[f"{dtype} as is"] = lambda matrix=matrix: matrix @ matrix
        work[f"{dtype} transposed"] = lambda matrix=matrix: torch.nn.functional.linear(matrix, matrix)
    rounds = [
        {name: _seconds(run) for name, run in work.items()} for _ in range(5 if quick else 8)
    ]  # the first warms up
    best = {name: min(each[name] for each in rounds) for name in work}
    read, copy = elements.nbytes / best["read"] / 1e9, 2 * elements.nbytes / best["copy"] / 1e9
    limits = []
    for dtype, width in widths.items():
        seconds = min(best[f"{dtype} as is"], best[f"{dtype} transposed"])
        limits.append(MachineLimits(device, dtype, 2 * width**3 / seconds / 1e9, read, copy))
    return limits


def _seconds(run: Callable[[], Tensor]) -> float:
    start = perf_counter()
    result = run()
    if result.is_cuda:
        torch.cuda.synchronize()
    return perf_counter() - start
