"""On what a benchmark ran, in words that mean something elsewhere: no names of hosts, users or folders."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

import torch

CPU_INFO = Path("/proc/cpuinfo")  # Linux; elsewhere Python's own answer must do


def describe_machine() -> dict[str, str | int | None]:
    """The machine as plain data.

    Returns:
        processor (name), cores and threads (numbers: seen and used), memory_bytes, gpu (name or None),
        gpu_memory_bytes, torch, cuda and python (versions), system ("Linux", ...), date (YYYY-MM-DD).
    """
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
    """The processor's name, or its family where the system does not tell."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def memory_bytes() -> int | None:
    """Bytes of main memory; None where the system does not tell (Windows)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
