"""The device that a notebook's kernel runs the lessons on."""

from __future__ import annotations

import os
import re

import torch


def course_device() -> torch.device:
    """Return the device that the environment variable COURSE_DEVICE names, else the CPU.

    The kernels "Attention (CPU)" and "Attention (CUDA)" set it, so that one notebook runs on both. Matrix products on
    CUDA are computed in full float32 (PyTorch's default, TF32 off); otherwise results would differ from the CPU's in
    the third digit.

    Returns:
        torch.device of type "cpu" or "cuda".

    Raises:
        ValueError: COURSE_DEVICE is neither "cpu" nor "cuda" (or "cuda:0", "cuda:1", ...).
        RuntimeError: it names a GPU that PyTorch does not see; the message says what to do.
    """
    name = os.environ.get("COURSE_DEVICE") or "cpu"
    kind, _, index = name.partition(":")
    if not re.fullmatch(r"(cpu|cuda)(:[0-9]+)?", name):
        raise ValueError(f"COURSE_DEVICE is {name!r}: set it to 'cpu' or 'cuda'.")
    if kind == "cuda" and torch.cuda.device_count() <= int(index or 0):
        raise RuntimeError(
            f"COURSE_DEVICE asks for {name!r}, but PyTorch sees {torch.cuda.device_count()} GPUs here: choose the "
            "kernel 'Attention (CPU)' (menu Kernel > Change Kernel), or set COURSE_DEVICE=cpu, and run again."
        )
    return torch.device(name)
