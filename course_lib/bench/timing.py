"""Times several ways to the same result, round by round, so that a slow moment of the machine hits all of them."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor


class Row(NamedTuple):
    """What was measured of one case.

    Attributes:
        name: of the case.
        median_ms, min_ms, max_ms: milliseconds over the rounds.
        speedup: median over the rounds of (time of the first case / time of this one).
    """

    name: str
    median_ms: float
    min_ms: float
    max_ms: float
    speedup: float


def compare_times(cases: dict[str, Callable[[], Tensor]], rounds: int) -> list[Row]:
    """Run every case once a round, after a warm-up round in which all results are compared.

    Args:
        cases: name and function; all must return the same numbers.
        rounds: how often each is timed.

    Returns:
        One Row a case, in order.

    Raises:
        ValueError: a case whose result differs from the first one's: equal results come before equal times.
    """
    results = {name: run() for name, run in cases.items()}
    first = next(iter(results.values()))
    for name, result in results.items():
        difference = (result - first).abs().max().item()
        if difference > 1e-4:
            raise ValueError(f"{name!r} differs from the first case by {difference:.2g}: it is not the same function.")
    times = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            times[name].append(_milliseconds(run))
    first_times = next(iter(times.values()))
    return [
        Row(name, median(own), min(own), max(own), median(a / b for a, b in zip(first_times, own, strict=True)))
        for name, own in times.items()
    ]


def _milliseconds(run: Callable[[], Tensor]) -> float:
    start = perf_counter()
    result = run()
    if result.is_cuda:
        torch.cuda.synchronize()
    return (perf_counter() - start) * 1e3
