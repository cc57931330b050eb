"""Time and memory of several ways to compute the same result, measured side by side in one run.

Lessons use `Case`, `compare_times`, `peak_bytes` and `random_tensors`; `tools/performance` builds on the rest.
"""

from .case import Case, broadcast_attention, random_tensors
from .memory import peak_bytes
from .results import Goal, MachineLimits, Measurement, Results, Table, load_results
from .rounds import (
    MIN_ROUNDS,
    NOT_EQUIVALENT,
    Workload,
    check_equal,
    compare_times,
    make_workloads,
    median_ratio,
    ratio_interval,
    time_rounds,
)

__all__ = [
    "MIN_ROUNDS", "NOT_EQUIVALENT", "Case", "Goal", "MachineLimits", "Measurement", "Results", "Table", "Workload",
    "broadcast_attention", "check_equal", "compare_times", "load_results", "make_workloads", "median_ratio",
    "peak_bytes", "random_tensors", "ratio_interval", "time_rounds",
]  # fmt: skip
