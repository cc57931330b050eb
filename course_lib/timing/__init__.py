"""Time and memory of several ways to compute the same result, measured side by side in one run.

Lessons use `Case`, `compare_times`, `multi_query_decode`, `copies_of_keys` and `stored`; `tools/performance`
builds on the rest.
"""

from .case import Case, broadcast_attention, copies_of_keys, multi_query_decode, random_tensors
from .memory import peak_bytes
from .results import MEASURED, Goal, MachineLimits, Measurement, Results, Table, load_results, stored
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
    "MEASURED", "MIN_ROUNDS", "NOT_EQUIVALENT", "Case", "Goal", "MachineLimits", "Measurement", "Results", "Table",
    "Workload", "broadcast_attention", "check_equal", "compare_times", "copies_of_keys", "load_results",
    "make_workloads", "median_ratio", "multi_query_decode", "peak_bytes", "random_tensors", "ratio_interval", "stored",
    "time_rounds",
]  # fmt: skip
