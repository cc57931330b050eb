"""What this machine can do at best: how fast it multiplies matrices, reads memory and copies it."""

from __future__ import annotations

from time import perf_counter

import torch
from torch import Tensor

from .results import Limits


def measure_limits(
    device: str, dtypes: tuple[str, ...] = ("float32", "bfloat16"), *, quick: bool = False
) -> list[Limits]:
    """Measure the limits of a device; the best of several rounds counts, as a limit is what can be reached.

    The matrix rate is that of a square product, with the second matrix as it is or transposed, whichever is faster.
    The read rate is that of the sum, the copy rate that of `copy_`, of numbers that no cache holds, in float32.

    Args:
        device: "cpu" or "cuda".
        dtypes: names of dtypes.
        quick: whether small sizes and few rounds will do.

    Returns:
        One `Limits` a dtype.
    """
    large = device == "cuda" and not quick
    rounds = 5 if quick else 8  # the first one warms up
    numbers = torch.ones((1 << 20) if quick else (1 << 28 if large else 1 << 26), device=device)
    copied = torch.empty_like(numbers)
    matrices = {}
    for dtype in dtypes:
        slow = device == "cpu" and dtype != "float32"  # a processor may have no instructions for it
        width = 256 if quick else (8192 if large else (512 if slow else 2048))
        matrices[dtype] = torch.ones(width, width, device=device, dtype=getattr(torch, dtype))

    work = {"read": lambda: numbers.sum(), "copy": lambda: copied.copy_(numbers)}
    for dtype, matrix in matrices.items():
        work[f"{dtype} as is"] = lambda matrix=matrix: matrix @ matrix
        work[f"{dtype} transposed"] = lambda matrix=matrix: torch.nn.functional.linear(matrix, matrix)
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, run in work.items():
            best[name] = min(best[name], _seconds(run))

    read, copy = numbers.nbytes / best["read"] / 1e9, 2 * numbers.nbytes / best["copy"] / 1e9
    limits = []
    for dtype, matrix in matrices.items():
        seconds = min(best[f"{dtype} as is"], best[f"{dtype} transposed"])
        limits.append(Limits(device, dtype, 2 * len(matrix) ** 3 / seconds / 1e9, read, copy))
    return limits


def _seconds(run) -> float:
    start = perf_counter()
    result: Tensor = run()
    if result.is_cuda:
        torch.cuda.synchronize()
    return perf_counter() - start
