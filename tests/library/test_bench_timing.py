"""The benchmark compares equal functions only, in rounds; memory is exact; the limits are measured, not made up."""

import time
import types

import pytest
import torch

from course_lib.bench import limits, machine, timing
from course_lib.bench.case import Case, all_of, core_cost, draw, module_cost, ready
from course_lib.bench.cases import multi_query_decode
from course_lib.bench.limits import measure_limits
from course_lib.bench.machine import describe_machine
from course_lib.bench.memory import peak_bytes
from course_lib.bench.ratios import median_ratio, ratio_interval
from course_lib.bench.timing import compare_times, time_rounds

MIB = 1 << 20


# --- timing ---


def test_ratios_come_from_the_same_rounds():
    rows = compare_times([Case("slow", _sleep), Case("fast", lambda: torch.ones(1))], rounds=3)
    assert rows[0].ratio == rows[0].speedup == 1.0
    assert rows[1].ratio < 1.0 < rows[1].speedup
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
    one = Case("one", lambda: x * 2, (x,))
    other = Case("other", lambda: torch.cat(parts) * 2, tuple(parts))
    detached = Case("wrong", lambda: x * 2 + (x.detach() - x) * 0.5 - (x.detach() - x).detach(), (x,))
    assert len(compare_times([one, other], rounds=2, backward=True)) == 2
    compare_times([one, detached], rounds=1)  # the results are equal
    with pytest.raises(ValueError, match="'wrong' is not the same function as the first case: gradients differ"):
        compare_times([one, detached], rounds=1, backward=True)


def test_forward_is_timed_without_gradients():
    x = torch.ones(2, requires_grad=True)
    recorded = []
    compare_times([Case("one", lambda: recorded.append((x * 2).requires_grad) or x.detach())], rounds=1)
    assert recorded == [False, False, False]


def test_caches_are_emptied_before_every_cold_run(monkeypatch):
    monkeypatch.setitem(timing.CACHE_BYTES, "cpu", 16)
    seen = []
    real = timing._on_cpu
    monkeypatch.setattr(timing, "_on_cpu", lambda step, flushed: seen.append(flushed) or real(step, flushed))
    time_rounds({"one": lambda: (torch.ones(1),)}, 2, "cpu", cold=True)
    assert [each.tolist() for each in seen] == [[0] * 16] * 2


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


def test_lesson_06_finds_its_three_cases():
    rows = compare_times(multi_query_decode("cpu", quick=True), rounds=1)
    assert [row.name for row in rows] == ["broadcast", "attend", "attend_fused"]


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


# --- the machine and its limits ---


def test_limits_are_rates_of_work_that_is_known(monkeypatch):
    seconds = {"read": 0.5, "copy": 0.25, "float32 as is": 0.125, "float32 transposed": 0.25}
    clock = iter([seconds[name] * factor for factor in (2, 1, 3, 4, 5) for name in seconds])  # the fastest round counts
    monkeypatch.setattr(limits, "_seconds", lambda run: next(clock))
    (own,) = measure_limits("cpu", ("float32",), quick=True)
    assert own.read_gb_per_s == pytest.approx(4 * MIB / 0.5 / 1e9)
    assert own.copy_gb_per_s == pytest.approx(2 * 4 * MIB / 0.25 / 1e9)
    assert own.matmul_gflops == pytest.approx(2 * 256**3 / 0.125 / 1e9)
    assert own.milliseconds(4 * MIB, 0) == pytest.approx(500)
    assert own.milliseconds(4 * MIB, 8 * 2 * 256**3) == pytest.approx(1000)


def test_limits_are_timed_to_the_end(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(True))
    assert limits._seconds(lambda: types.SimpleNamespace(is_cuda=False)) >= 0 and not waited
    assert limits._seconds(lambda: types.SimpleNamespace(is_cuda=True)) >= 0 and waited


def test_the_machine_is_described_in_words_without_names_of_places():
    own = describe_machine()
    assert own["cores"] >= 1 and own["threads"] == torch.get_num_threads()
    assert own["memory_bytes"] > 1e8 and own["torch"] == torch.__version__
    assert own["processor"] and "/" not in own["processor"].replace(" / ", "")
    assert len(own["date"]) == 10


def test_a_machine_that_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "CPU_INFO", tmp_path / "none")
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    monkeypatch.setattr(machine.platform, "machine", lambda: "arm64")
    assert machine.processor_name() == "arm64"
    monkeypatch.delattr(machine.os, "sysconf")
    assert machine.memory_bytes() is None


def test_a_gpu_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    gpu = types.SimpleNamespace(name="a GPU", total_memory=5)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpu)
    own = describe_machine()
    assert (own["gpu"], own["gpu_memory_bytes"]) == ("a GPU", 5)


# --- what is the least ---


def test_the_cost_of_attention_by_counting():
    queries, keys, values = torch.ones(2, 6, 3, 5), torch.ones(2, 1, 3, 5), torch.ones(2, 1, 3, 7)
    cost = core_cost(queries, keys, values)
    assert cost == {"bytes": 4 * (180 + 30 + 42 + 252), "flops": 2 * 2 * 6 * 9 * 12}
    assert core_cost(queries, keys, values, causal=True)["flops"] == 2 * 2 * 6 * 6 * 12  # 6 pairs of 9 are seen


def test_the_cost_of_a_module_by_counting():
    from course_lib.attention import MultiQueryAttention

    module = ready(MultiQueryAttention(11, 13, 3, d_qk=6, d_v=15), "cpu", "float32")
    weights = 11 * 6 + 11 * 2 + 11 * 5 + 15 * 13
    x = torch.ones(2, 4, 11)
    assert module_cost(module, x) == {
        "bytes": 4 * (weights + 2 * 4 * 11 + 2 * 4 * 13),
        "flops": 2 * 2 * (4 * weights + 3 * 10 * 7),
    }
    step = module_cost(module, x[:, :1], cached=9)
    assert step["bytes"] == 4 * (weights + 2 * 11 + 2 * 13 + 2 * 9 * 7)
    assert step["flops"] == 2 * 2 * (weights + 3 * 10 * 7)


def test_weights_and_inputs_do_not_depend_on_the_callers_seed():
    from course_lib.attention import MultiHeadAttention

    state = torch.get_rng_state()
    one, other = (draw("cpu", "bfloat16", (2, 3), (4,)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True)) and one[0].dtype == torch.bfloat16
    first = ready(MultiHeadAttention(6, 6, 2), "cpu", "float32")
    second = ready(MultiHeadAttention(6, 6, 2), "cpu", "float32")
    assert torch.equal(first.q_proj.weight, second.q_proj.weight) and not first.training
    torch.set_rng_state(state)


def test_fields_are_set_in_all_cases():
    cases = all_of([Case("a", lambda: None), Case("b", lambda: None)], bytes=3, flops=4)
    assert [(case.name, case.bytes, case.flops) for case in cases] == [("a", 3, 4), ("b", 3, 4)]
