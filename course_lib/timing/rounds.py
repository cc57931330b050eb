"""Time several ways to compute the same result in rounds, so that a slow moment of the machine affects all of them.

Ratios are those of times measured in the same rounds.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import comb, inf
from random import Random
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from .case import Case
from .results import Measurement

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float64: 1e-10}  # relative to the largest element
NOT_EQUIVALENT = "is not the same function as the first case"
MIN_ROUNDS = 3
CACHE_BYTES = {"cpu": 128 << 20, "cuda": 1 << 30}  # more than the caches of a processor or a GPU hold

Workload = Callable[[], tuple[Tensor, ...]]  # returns the result, then gradients if they are measured


def compare_times(cases: list[Case], rounds: int, *, backward: bool = False) -> list[Measurement]:
    """Run every case once per round, in an order that changes, after a warm-up that compares all results.

    Args:
        cases: all must return the same values.
        rounds: how often each is timed.
        backward: whether to time the forward pass together with the gradients of a case's leaves, which are then
            compared as well.

    Returns:
        One Measurement per case, in order.

    Raises:
        ValueError: the result of a case differs from that of the first.
    """
    workloads = make_workloads(cases, backward)
    first = next(iter(workloads.values()))()
    for name, workload in workloads.items():
        check_equal(name, workload(), first)
    return time_rounds(workloads, rounds, first[0].device.type)


def time_rounds(
    workloads: dict[str, Workload], rounds: int, device: str, *, seconds: float = inf, cold: bool = False
) -> list[Measurement]:
    """Time workloads that have run before and are known to be equivalent.

    Args:
        workloads: by name.
        rounds: how often each is timed.
        device: "cpu" or "cuda", the device they run on.
        seconds: time budget of all workloads together. One that has used up its part is left out of the remaining
            rounds, but each is timed at least MIN_ROUNDS times (or `rounds` times, if that is less).
        cold: whether caches are flushed before every run. On CUDA they always are.

    Returns:
        One Measurement per workload, in order.
    """
    flush_buffer = None
    if cold or device == "cuda":
        flush_buffer = torch.empty(CACHE_BYTES[device], dtype=torch.uint8, device=device)
    milliseconds = _time_on_cuda if device == "cuda" else _time_on_cpu
    budget_ms = seconds * 1e3 / len(workloads)
    times: dict[str, list[float]] = {name: [] for name in workloads}
    for number in range(rounds):
        for name in Random(number).sample(list(workloads), len(workloads)):
            if len(times[name]) < MIN_ROUNDS or sum(times[name]) < budget_ms:
                if flush_buffer is not None:  # on CUDA, the CPU launches the workload's kernels meanwhile
                    flush_buffer.zero_()
                times[name].append(round(milliseconds(workloads[name]), 6))
    first = next(iter(times.values()))
    return [Measurement(name, tuple(ms), median_ratio(ms, first)) for name, ms in times.items()]


def make_workloads(cases: list[Case], backward: bool) -> dict[str, Workload]:
    """Return a function to time for each case, which computes its result, with gradients if `backward` is True."""
    if not backward:
        return {case.name: partial(_forward, case) for case in cases}
    with torch.no_grad():
        shape = cases[0].run().shape
    output_gradient = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    # the gradient of a loss with respect to the output
    return {case.name: partial(_backward, case, output_gradient.to(case.leaves[0])) for case in cases}


def check_equal(name: str, result: tuple[Tensor, ...], first: tuple[Tensor, ...]) -> None:
    """Refuse a workload whose result, or whose concatenated gradients, differ from those of the first one.

    Raises:
        ValueError: they differ; the message says by how much.
    """
    pairs = [("results", result[0], first[0])]
    if first[1:]:
        actual, other = (torch.cat([gradient.flatten() for gradient in each[1:]]) for each in (result, first))
        pairs.append(("gradients", actual, other))
    for what, actual, other in pairs:
        difference = inf
        if actual.shape == other.shape:
            difference = ((actual - other).double().abs().max() / other.double().abs().max()).item()
        if not difference <= TOLERANCE[other.dtype]:  # also refuses nan
            raise ValueError(f"{name!r} {NOT_EQUIVALENT}: {what} differ by {difference:.2g} of the largest element.")


@torch.no_grad()
def _forward(case: Case) -> tuple[Tensor, ...]:
    return (case.run(),)


def _backward(case: Case, output_gradient: Tensor) -> tuple[Tensor, ...]:
    output = case.run()
    return (output.detach(), *torch.autograd.grad(output, case.leaves, output_gradient))


def _time_on_cpu(workload: Workload) -> float:
    start = perf_counter()
    workload()
    return (perf_counter() - start) * 1e3


def _time_on_cuda(workload: Workload) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    workload()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def round_ratios(times: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Return one ratio per round, so that a slow moment of the machine cancels out.

    A case that used up its time has fewer rounds than the others, so only the rounds of both count.
    """
    return [time / other for time, other in zip(times, reference)]  # noqa: B905 (lengths may differ, see above)


def median_ratio(times: Sequence[float], reference: Sequence[float]) -> float:
    """Return the median over the rounds; 0.5 means half the time."""
    return median(round_ratios(times, reference))


def ratio_interval(times: Sequence[float], reference: Sequence[float]) -> tuple[float, float]:
    """Return the 95% confidence interval of the median ratio.

    It assumes nothing about the noise except that rounds are independent. The true median is as likely to lie above a
    round as below it, so the k-th smallest and the k-th largest of n rounds enclose it with the probability

        1 - 2 (C(n, 0) + ... + C(n, k - 1)) / 2^n

    and k is the largest for which this is at least 0.95. Fewer than six rounds can't reach 0.95, and the interval then
    extends from the smallest to the largest ratio.
    """
    ratios = sorted(round_ratios(times, reference))
    rounds, k, outside = len(ratios), 1, 1
    while 2 * (outside + comb(rounds, k)) <= 0.05 * 2**rounds:
        outside += comb(rounds, k)
        k += 1
    return ratios[k - 1], ratios[rounds - k]
