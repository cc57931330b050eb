"""Results as tables that a person can read."""

from dataclasses import replace

from course_lib.timing import Goal, Measurement
from tests.timing.planted_results import LIMITS, MACHINE, table
from tools.performance.tables import format_goals, format_machine, format_tables


def test_the_machine_in_words():
    gpu = MACHINE | {"gpu": "G", "gpu_memory_bytes": 80e9, "cuda": "13.0", "memory_bytes": None}
    assert (
        format_machine(MACHINE, []) == "P, 4 cores, 2 threads used, 8 GB; PyTorch 2.13, Python 3.11, Linux, 2026-11-21"
    )
    lines = format_machine(gpu, [LIMITS]).splitlines()
    assert "unknown memory" in lines[0] and lines[1] == "G, 80 GB, CUDA 13.0"
    assert lines[2] == "cpu, float32: 100.0 GFLOP/s in a matrix product, 10.0 GB/s read, 8.0 GB/s copied"


def test_a_table_in_words():
    rows = [Measurement("first", (1.0, 2.0, 3.0), 1.0, 2_000_000, limit_ms=0.5), Measurement("second one", (4.0,), 2.0)]
    own = replace(table("forms", rows), left_out=["Why."])
    assert format_tables([own]).splitlines()[1:] == [
        "title of forms; cpu, float32, forward",
        "             median ms    half of the rounds   x first    peak MB  x limit",
        "first            2.000        1.500 to 2.500     1.000       2.00     4.00",
        "second one       4.000        4.000 to 4.000     2.000          -        -",
        "  Why.",
    ]
    assert format_tables([table("forms", [])]) == "\ntitle of forms; cpu, float32, forward"


def test_growth_is_one_table():
    curve = [table("growth-tokens", [("fused", [float(n)])], batch=1, num_tokens=n) for n in (8, 16)]
    lines = format_tables(curve).splitlines()
    assert lines[1] == "Growth with num_tokens: batch 1; cpu, float32, forward"
    assert [line.split()[:3] for line in lines[3:]] == [["8", "fused", "8.000"], ["16", "fused", "16.000"]]


def test_goals_in_words():
    goals = [
        Goal("slow", "here", 2.4, 2.0, "at most", False, "why"),
        Goal("fast", "there", 66.0, 60.0, "at least", True, "so"),
    ]
    text = format_goals(goals)
    assert "Goals: 1 of 2 met" in text
    assert "  MISSED     2.40   <= 2.00  here" in text and "why; missed by 20%" in text
    assert "  met       66.00  >= 60.00  there" in text and text.endswith("  so")
    assert format_goals([]) == "\nNo goal can be judged by what was measured."
