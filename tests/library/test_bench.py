"""The benchmark compares equal functions only, leaves the thread count as it was and prints what it promises."""

import json

import pytest
import torch

from course_lib import bench
from course_lib.bench.cases import GROUPS
from course_lib.bench.timing import compare_times


def test_a_case_that_computes_something_else_is_refused():
    with pytest.raises(ValueError, match="'other' differs from the first case by 1: it is not the same function"):
        compare_times({"one": lambda: torch.zeros(2), "other": lambda: torch.ones(2)}, rounds=1)


def test_ratios_come_from_the_same_rounds():
    rows = compare_times(
        {"slow": lambda: sum(torch.zeros(200, 200) for _ in range(300)), "fast": lambda: torch.zeros(1)}, rounds=3
    )
    assert rows[0].speedup == 1.0
    assert rows[1].speedup > 1.0
    assert all(row.min_ms <= row.median_ms <= row.max_ms for row in rows)


def test_a_gpu_is_waited_for(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(True))

    class OnGpu(torch.Tensor):
        is_cuda = True

    compare_times({"one": lambda: torch.zeros(2).as_subclass(OnGpu)}, rounds=3)
    assert len(waited) == 3


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.build.__name__)
def test_the_cases_of_a_group_are_equal(group):
    with torch.no_grad():
        assert len(compare_times(group.build("cpu", True), rounds=1)) >= 3


def test_json_and_tables(capsys):
    threads = torch.get_num_threads()
    assert bench.main(["--quick", "--json", "--threads", "1"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["threads"] == 1
    assert [row["name"] for row in results["results"][0]["rows"]] == ["broadcast matmul", "attend", "attend_fused"]
    assert bench.main(["--quick", "--threads", "1"]) == 0
    text = capsys.readouterr().out
    assert "times faster than the first" in text and "weight split, fused" in text
    assert torch.get_num_threads() == threads


def test_a_wrong_number_of_threads_is_refused(capsys):
    with pytest.raises(SystemExit):
        bench.main(["--threads", "0"])
    assert "--threads must be at least 1, got 0" in capsys.readouterr().err
