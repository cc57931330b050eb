"""Times several ways to the same result, round by round, so that a slow moment of the machine hits all of them."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from time import perf_counter

import torch
from torch import Tensor

from .case import Case
from .ratios import median_ratio
from .results import Row

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float64: 1e-10}  # of the largest number
DIFFERENT = "is not the same function as the first case"
LEAST_ROUNDS = 3
CACHE_BYTES = {"cpu": 128 << 20, "cuda": 1 << 30}  # more than the caches of a processor or a GPU hold

Step = Callable[[], tuple[Tensor, ...]]


def compare_times(cases: list[Case], rounds: int, *, backward: bool = False) -> list[Row]:
    """Run every case once a round, in an order that changes, after a warm-up in which all results are compared.

    Args:
        cases: all must return the same numbers.
        rounds: how often each is timed.
        backward: whether to time the forward pass and the gradients of a case's leaves; they are compared, too.

    Returns:
        One Row a case, in order.

    Raises:
        ValueError: a case whose result differs from the first one's: equal results come before equal times.
    """
    steps = make_steps(cases, backward)
    first = next(iter(steps.values()))()
    for name, step in steps.items():
        check_equal(name, step(), first)
    return time_rounds(steps, rounds, first[0].device.type)


def time_rounds(
    steps: dict[str, Step], rounds: int, device: str, *, seconds: float = inf, cold: bool = False
) -> list[Row]:
    """Time steps that have run before, and are known to be equal.

    Args:
        steps: by name.
        rounds: how often each is timed.
        device: "cpu" or "cuda", where they run.
        seconds: for all steps together; one that has used its share rests for the remaining rounds, but none has fewer
            than three (or than rounds).
        cold: whether caches are emptied before every run. On CUDA they always are.

    Returns:
        One Row a step, in order.
    """
    milliseconds = _on_cuda if device == "cuda" else _on_cpu
    flushed = None
    if cold or device == "cuda":
        flushed = torch.empty(CACHE_BYTES[device], dtype=torch.uint8, device=device)
    share = seconds * 1e3 / len(steps)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds):
        for name in Random(number).sample(list(steps), len(steps)):
            if len(times[name]) < LEAST_ROUNDS or sum(times[name]) < share:
                times[name].append(round(milliseconds(steps[name], flushed), 6))
    first = next(iter(times.values()))
    return [Row(name, tuple(own), median_ratio(own, first)) for name, own in times.items()]


def make_steps(cases: list[Case], backward: bool) -> dict[str, Step]:
    """What is timed of each case: its result without gradients, or its result and its gradients."""
    if not backward:
        return {case.name: _forward(case) for case in cases}
    with torch.no_grad():
        shape = cases[0].run().shape
    arriving = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    return {case.name: _backward(case, arriving) for case in cases}


def check_equal(name: str, result: tuple[Tensor, ...], first: tuple[Tensor, ...]) -> None:
    """Refuse a step whose result, or whose gradients put one behind the other, are other numbers than the first's."""
    pairs = [("results", result[0], first[0])]
    if first[1:]:
        pairs.append(("gradients", *(torch.cat([each.flatten() for each in own[1:]]) for own in (result, first))))
    for what, own, other in pairs:
        difference = inf
        if own.shape == other.shape:
            difference = ((own - other).double().abs().max() / other.double().abs().max()).item()
        if not difference <= TOLERANCE[other.dtype]:  # nan is refused, too
            raise ValueError(f"{name!r} {DIFFERENT}: {what} differ by {difference:.2g} of the largest number there is.")


def _forward(case: Case) -> Step:
    def step() -> tuple[Tensor, ...]:
        with torch.no_grad():
            return (case.run(),)

    return step


def _backward(case: Case, arriving: Tensor) -> Step:
    arriving = arriving.to(case.leaves[0])  # the gradient of a loss with respect to the output

    def step() -> tuple[Tensor, ...]:
        output = case.run()
        return (output.detach(), *torch.autograd.grad(output, case.leaves, arriving))

    return step


def _on_cpu(step: Step, flushed: Tensor | None) -> float:
    if flushed is not None:
        flushed.zero_()
    start = perf_counter()
    step()
    return (perf_counter() - start) * 1e3


def _on_cuda(step: Step, flushed: Tensor) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flushed.zero_()  # the GPU is busy with it while the step's kernels are launched, so their launch is not timed
    start.record()
    step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)
