"""Only equal functions are compared, in rounds; memory is exact."""

import time
import types

import pytest
import torch

from course_lib.timing import (
    Case,
    compare_times,
    median_ratio,
    peak_bytes,
    random_tensors,
    ratio_interval,
    time_rounds,
)
from course_lib.timing import rounds as timing

MIB = 1 << 20


# --- timing ---


def test_ratios_come_from_the_same_rounds():
    rows = compare_times([Case("slow", _sleep), Case("fast", lambda: torch.ones(1))], rounds=3)
    assert rows[0].ratio == 1.0
    assert rows[1].ratio < 1.0
    assert all(row.min_ms <= row.median_ms <= row.max_ms and len(row.times_ms) == 3 for row in rows)


def _sleep():
    time.sleep(0.003)
    return torch.ones(1)


def test_the_order_changes_from_round_to_round():
    order = []
    cases = [Case(name, lambda name=name: order.append(name) or torch.ones(1)) for name in "abcd"]
    compare_times(cases, rounds=8)
    rounds = ["".join(order[start : start + 4]) for start in range(5, len(order), 4)]  # after the warm-up
    assert len(rounds) == 8 and len(set(rounds)) > 4
    assert all(sorted(each) == list("abcd") for each in rounds)


def test_a_slow_case_rests_after_three_rounds_and_a_fast_one_goes_on():
    steps = {"slow": lambda: (_sleep(),), "fast": lambda: (torch.ones(1),)}
    slow, fast = time_rounds(steps, 6, "cpu", seconds=0.01)
    assert len(slow.times_ms) == 3 and len(fast.times_ms) == 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_case_that_computes_something_else_is_refused(dtype):
    right = torch.tensor([2.0, -4.0], dtype=dtype)
    wrong = right + 5 * timing.TOLERANCE[dtype]
    compare_times([Case("one", lambda: right), Case("other", lambda: right + 0.1 * timing.TOLERANCE[dtype])], rounds=1)
    with pytest.raises(ValueError, match="'other' is not the same function as the first case: results differ by "):
        compare_times([Case("one", lambda: right), Case("other", lambda: wrong)], rounds=1)


@pytest.mark.parametrize("wrong", [torch.ones(2, 1), torch.tensor([torch.nan, 1.0])])
def test_another_shape_or_nan_is_refused(wrong):
    with pytest.raises(ValueError, match="'other' is not the same function"):
        compare_times([Case("one", lambda: torch.ones(2)), Case("other", lambda: wrong)], rounds=1)


def test_gradients_are_compared_too_and_may_be_cut_differently():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    parts = [torch.tensor([1.0], requires_grad=True), torch.tensor([2.0, 3.0], requires_grad=True)]
    case = Case("one", lambda: x * 2, (x,))
    other = Case("other", lambda: torch.cat(parts) * 2, tuple(parts))
    detached = Case("wrong", lambda: x * 2 + (x.detach() - x) * 0.5 - (x.detach() - x).detach(), (x,))
    assert len(compare_times([case, other], rounds=2, backward=True)) == 2
    compare_times([case, detached], rounds=1)  # the results are equal
    with pytest.raises(ValueError, match="'wrong' is not the same function as the first case: gradients differ"):
        compare_times([case, detached], rounds=1, backward=True)


def test_forward_is_timed_without_gradients():
    x = torch.ones(2, requires_grad=True)
    recorded = []
    compare_times([Case("one", lambda: recorded.append((x * 2).requires_grad) or x.detach())], rounds=1)
    assert recorded == [False, False, False]


def test_caches_are_emptied_before_every_cold_run(monkeypatch):
    buffer = torch.ones(16, dtype=torch.uint8)
    monkeypatch.setattr(torch, "empty", lambda size, **options: buffer if size == timing.CACHE_BYTES["cpu"] else None)
    seen = []

    def step():
        seen.append(buffer.tolist())
        buffer.fill_(1)
        return (torch.ones(1),)

    time_rounds({"one": step}, 2, "cpu", cold=True)
    assert seen == [[0] * 16] * 2


def test_on_a_gpu_events_are_recorded_around_the_step_and_waited_for(monkeypatch):
    done = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            done.append("record")

        def elapsed_time(self, end):
            assert end is not self
            return 1.5

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("wait"))
    flushed = types.SimpleNamespace(zero_=lambda: done.append("flush"))
    monkeypatch.setattr(torch, "empty", lambda *_, **__: flushed)
    (row,) = time_rounds({"one": lambda: done.append("run")}, 1, "cuda")
    assert row.times_ms == (1.5,)
    assert done == ["flush", "record", "run", "record", "wait"]


def test_inputs_do_not_depend_on_the_callers_seed():
    one, other = (random_tensors("cpu", "bfloat16", (2, 3), (4,)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True)) and one[0].dtype == torch.bfloat16


# --- ratios and their noise ---


def test_the_ratio_is_the_median_of_the_rounds_not_the_ratio_of_the_medians():
    assert median_ratio([2.0, 30.0, 4.0], [1.0, 10.0, 1.0]) == 3.0
    assert median_ratio([2.0, 30.0, 4.0], [1.0, 10.0]) == 2.5, "rounds that only one has are left aside"


@pytest.mark.parametrize(("rounds", "k"), [(1, 1), (3, 1), (5, 1), (6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6)])
def test_the_interval_is_the_sign_tests(rounds, k):
    # k from tables of the sign test at 95%: the k-th smallest and the k-th largest enclose the median.
    times = [float(number) for number in range(1, rounds + 1)]
    assert ratio_interval(times[::-1], [1.0] * rounds) == (float(k), float(rounds + 1 - k))


def test_the_interval_holds_the_true_median_as_often_as_it_says():
    generator = torch.Generator().manual_seed(3)
    inside = 0
    for _ in range(400):
        lower, upper = ratio_interval(torch.rand(15, generator=generator).tolist(), [1.0] * 15)
        inside += lower <= 0.5 <= upper
    assert 0.93 <= inside / 400 <= 1.0


# --- memory ---


def test_memory_is_exact():
    def tensors():
        first = torch.zeros(3 * MIB, dtype=torch.uint8)
        second = torch.zeros(5 * MIB, dtype=torch.uint8)
        del first
        third = torch.zeros(2 * MIB, dtype=torch.uint8)
        return second, third

    assert peak_bytes(tensors) == 8 * MIB


def test_what_is_there_before_and_views_do_not_count():
    there = torch.zeros(1000, 1000)
    assert peak_bytes(lambda: there.t()[:, None].expand(1000, 7, 1000)) == 0
    assert peak_bytes(lambda: there.t().clone(memory_format=torch.preserve_format)) == there.nbytes


def test_a_product_of_broadcast_tensors_shows_its_copies():
    queries, keys = torch.ones(2, 3, 1, 64), torch.ones(2, 1, 500, 64)
    copied = 3 * keys.nbytes
    assert copied <= peak_bytes(lambda: queries @ keys.transpose(2, 3)) < copied + 4 * 2 * 3 * 500 + 1000
    assert peak_bytes(lambda: queries.transpose(1, 2) @ keys.transpose(2, 3)) < keys.nbytes


def test_gradients_count():
    weight = torch.ones(500, 300, requires_grad=True)
    x = torch.ones(7, 300)
    peak = peak_bytes(lambda: torch.autograd.grad((x @ weight.T).sum(), weight))
    assert weight.nbytes <= peak < weight.nbytes + 50_000


def test_a_gpu_counts_for_itself(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: calls.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: calls.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 350)
    assert peak_bytes(lambda: calls.append("run"), "cuda") == 250
    assert calls == ["wait", "reset", "run", "wait"]
