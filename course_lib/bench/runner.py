"""Runs experiments: what a machine can't hold or can't finish in time is left out, with a sentence that says so."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import torch

from .case import BACKWARD, Case, Experiment
from .machine import memory_bytes
from .memory import peak_bytes
from .results import Limits, Table
from .timing import LEAST_ROUNDS, Step, check_equal, make_steps, time_rounds

SECONDS_SHARED = 4.0  # for the rounds of a table; three of each case are made in any case
SECONDS_AT_MOST = {"float32": 45.0, "bfloat16": 15.0}  # for three rounds; a case that would need more is left out


def measure(
    name: str, experiment: Experiment, device: str, limits: Limits, *, rounds: int = 15, memory: bool = True
) -> Table:
    """Measure one experiment: equality and memory first, then time.

    Args:
        name: of its group.
        experiment: what to measure.
        device: "cpu" or "cuda", where its tensors are.
        limits: of this device and dtype.
        rounds: how often each case is timed, if there is time.
        memory: whether to measure memory as well.

    Returns:
        The table; without rows where nothing could be measured.
    """
    left_out = list(experiment.left_out)
    backward = experiment.direction == BACKWARD
    cases = {case.name: case for case in experiment.cases if _fits(case, device, left_out)}
    costs = {case.name: _cost(case, backward, limits) for case in cases.values()}
    at_best = sum(cost.get("limit_ms", 0.0) for cost in costs.values()) / 1e3 * LEAST_ROUNDS
    if at_best > SECONDS_AT_MOST[experiment.dtype]:
        left_out.append(
            f"Left out: at {limits.matmul_gflops:.1f} GFLOP/s, the most that {experiment.dtype} reaches here, three "
            f"rounds would take {at_best:.0f} s at best."
        )
        cases = {}
    rows = []
    if cases:
        steps = make_steps(list(cases.values()), backward)
        peaks = first_runs(steps, device, memory, SECONDS_AT_MOST[experiment.dtype], left_out)
        kept = {name: steps[name] for name in peaks}
        for row in time_rounds(kept, rounds, device, seconds=SECONDS_SHARED, cold=experiment.cold) if kept else ():
            more = {"peak_bytes": peaks[row.name], "cache_bytes": cases[row.name].cache_bytes, **costs[row.name]}
            rows.append(replace(row, **more))
    about = {"dtype": experiment.dtype, "direction": experiment.direction, "sizes": experiment.sizes}
    return Table(name, experiment.title, device, **about, rows=rows, left_out=left_out)


def first_runs(
    steps: dict[str, Step], device: str, memory: bool, seconds_left: float, left_out: list[str]
) -> dict[str, int | None]:
    """Run each step once: to warm up, to compare its numbers with the first one's, and to measure its memory.

    Args:
        steps: by name.
        device: "cpu" or "cuda", whose memory is meant.
        memory: whether to measure it.
        seconds_left: for three rounds of all steps; one that needs more than is left of it is left out.
        left_out: gets a sentence for each of those.

    Returns:
        Bytes (None if not measured) of the steps that stay, by name.
    """
    peaks: dict[str, int | None] = {}
    results: list[tuple[torch.Tensor, ...]] = []
    for name, step in steps.items():
        start = perf_counter()
        run = lambda step=step: results.append(step())  # noqa: E731 (what is measured drops its result)
        peak = peak_bytes(run, device) if memory else run()
        seconds = perf_counter() - start
        try:
            check_equal(name, results[-1], results[0])
        except ValueError as error:  # the others can still be measured; `course bench` ends with 1
            left_out.append(f"Left out: {error}")
            continue
        finally:
            del results[1:]
        if seconds * LEAST_ROUNDS > seconds_left:
            left_out.append(f"Left out: {name!r}, as one run takes {seconds:.1f} s.")
        else:
            peaks[name] = peak
            seconds_left -= seconds * LEAST_ROUNDS
    return peaks


def _fits(case: Case, device: str, left_out: list[str]) -> bool:
    total = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else memory_bytes()
    if total is None or case.needs <= total / 3:
        return True
    left_out.append(
        f"Left out: {case.name!r}, it needs {case.needs / 1e9:.1f} GB, more than a third of the machine's memory."
    )
    return False


def _cost(case: Case, backward: bool, limits: Limits) -> dict[str, float]:
    if case.bytes is None or case.flops is None:
        return {}
    # Backward, each product is made twice more: for the gradients of both factors.
    moved, flops = (3 * case.bytes, 3 * case.flops) if backward else (case.bytes, case.flops)
    return {"bytes": moved, "flops": flops, "limit_ms": limits.milliseconds(moved, flops)}
