"""Run experiments; a case that needs too much memory or time is left out, with a sentence on the reason."""

from dataclasses import replace
from time import perf_counter

import torch

from course_lib.timing import (
    MIN_ROUNDS,
    Case,
    MachineLimits,
    Table,
    Workload,
    check_equal,
    make_workloads,
    peak_bytes,
    time_rounds,
)

from .experiment import BACKWARD, Experiment
from .machine import memory_bytes

SECONDS_SHARED = 4.0  # for all rounds of a table; at least three rounds are measured
SECONDS_AT_MOST = {"float32": 45.0, "bfloat16": 15.0}  # for three rounds; a case that would need more is left out


def measure(name: str, experiment: Experiment, device: str, limits: MachineLimits, *, rounds: int = 15) -> Table:
    """Measure one experiment of the group `name`: equality and memory first, then time.

    The limits are those of this device and dtype; each case is timed `rounds` times if time allows. The table has no
    rows if nothing could be measured.
    """
    left_out = list(experiment.left_out)
    backward = experiment.direction == BACKWARD
    cases = {case.name: case for case in experiment.cases if _fits(case, device, left_out)}
    costs = {case.name: _cost(case, backward, limits) for case in cases.values()}
    at_best = sum(cost.get("limit_ms", 0.0) for cost in costs.values()) / 1e3 * MIN_ROUNDS
    if at_best > SECONDS_AT_MOST[experiment.dtype]:
        left_out.append(
            f"Left out: at {limits.matmul_gflops:.1f} GFLOP/s, the most that {experiment.dtype} reaches here, three "
            f"rounds would take {at_best:.0f} s at best."
        )
        cases = {}
    rows = []
    if cases:
        workloads = make_workloads(list(cases.values()), backward)
        peaks = first_runs(workloads, device, SECONDS_AT_MOST[experiment.dtype], left_out)
        kept = {name: workloads[name] for name in peaks}
        for row in time_rounds(kept, rounds, device, seconds=SECONDS_SHARED, cold=experiment.cold) if kept else ():
            more = {"peak_bytes": peaks[row.name], "cache_bytes": cases[row.name].cache_bytes, **costs[row.name]}
            rows.append(replace(row, **more))
    about = {"dtype": experiment.dtype, "direction": experiment.direction, "sizes": experiment.sizes}
    return Table(name, experiment.title, device, **about, rows=rows, left_out=left_out)


def first_runs(workloads: dict[str, Workload], device: str, seconds_left: float, left_out: list[str]) -> dict[str, int]:
    """Run each workload once to warm up, to compare its result with the first one's, and to measure its memory.

    A workload that needs more than what remains of the seconds for three rounds of all is left out; a sentence per
    missing workload is appended to `left_out`.

    Returns:
        Name -> the largest number of bytes that each workload which remains holds at one time.
    """
    peaks: dict[str, int] = {}
    results: list[tuple[torch.Tensor, ...]] = []
    for name, workload in workloads.items():
        start = perf_counter()
        peak = peak_bytes(lambda workload=workload: results.append(workload()), device)
        seconds = perf_counter() - start
        try:
            check_equal(name, results[-1], results[0])
        except ValueError as error:  # The others can still be measured; `course bench` ends with 1.
            left_out.append(f"Left out: {error}")
            continue
        finally:
            del results[1:]
        if seconds * MIN_ROUNDS > seconds_left:
            left_out.append(f"Left out: {name!r}, as one run takes {seconds:.1f} s.")
        else:
            peaks[name] = peak
            seconds_left -= seconds * MIN_ROUNDS
    return peaks


def _fits(case: Case, device: str, left_out: list[str]) -> bool:
    total = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else memory_bytes()
    if total is None or case.required_bytes <= total / 3:
        return True
    left_out.append(
        f"Left out: {case.name!r}, it needs {case.required_bytes / 1e9:.1f} GB, more than a third of the machine's "
        "memory."
    )
    return False


def _cost(case: Case, backward: bool, limits: MachineLimits) -> dict[str, float]:
    if case.bytes is None or case.flops is None:
        return {}
    # The backward pass computes two more products per product: the gradients of both factors.
    moved, flops = (3 * case.bytes, 3 * case.flops) if backward else (case.bytes, case.flops)
    return {"bytes": moved, "flops": flops, "limit_ms": limits.milliseconds(moved, flops)}
