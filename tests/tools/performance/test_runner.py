"""What a machine can't run is left out and named; the rest is compared, then measured."""

import types
import weakref

import torch

from course_lib.attention import MultiHeadAttention
from course_lib.timing import Case
from tests.timing.planted_results import LIMITS
from tools.performance import runner
from tools.performance.cases import forms, llama
from tools.performance.cases.llama import MISSING, build_modules, convert_modules
from tools.performance.experiment import BACKWARD, Experiment
from tools.performance.runner import measure


def experiment(*cases, **options):
    return Experiment("title", "float32", list(cases), {"batch": 1}, **options)


def test_costs_and_memory_stand_beside_the_times():
    x = torch.ones(1000, requires_grad=True)
    case = Case("one", lambda: x + x, (x,), bytes=20_000_000, flops=100_000_000, cache_bytes=5)
    forward = measure("forms", experiment(case), "cpu", LIMITS, rounds=2)
    (row,) = forward.rows
    assert (row.peak_bytes, row.cache_bytes, row.bytes, row.limit_ms) == (4000, 5, 20_000_000, 2.0)
    backward = measure("forms", experiment(case, direction=BACKWARD), "cpu", LIMITS, rounds=2)
    assert (backward.rows[0].flops, backward.rows[0].limit_ms) == (300_000_000, 6.0)
    assert forward.left_out == []


def test_a_case_that_does_not_fit_is_left_out(monkeypatch):
    large = Case("large", lambda: torch.ones(1), required_bytes=4_000_000_000)
    small = Case("small", lambda: torch.ones(1))
    monkeypatch.setattr(runner, "memory_bytes", lambda: 9_000_000_000)
    own = measure("x", experiment(large, small, left_out=["Before."]), "cpu", LIMITS, rounds=1)
    assert [row.name for row in own.rows] == ["small"] and own.rows[0].ratio == 1.0
    assert own.left_out == [
        "Before.",
        "Left out: 'large', it needs 4.0 GB, more than a third of the machine's memory.",
    ]
    monkeypatch.setattr(runner, "memory_bytes", lambda: None)
    assert len(measure("x", experiment(large, small), "cpu", LIMITS, rounds=1).rows) == 2
    gpu = types.SimpleNamespace(total_memory=9_000_000_000)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpu)
    assert measure("x", experiment(large), "cuda", LIMITS).rows == []


def test_a_table_that_the_machine_can_not_finish_is_left_out_before_it_runs():
    ran = []
    case = Case("one", lambda: ran.append(1), bytes=0, flops=2_000_000_000_000)
    own = measure("x", experiment(case), "cpu", LIMITS)
    assert not ran and own.rows == []
    assert own.left_out == [
        "Left out: at 100.0 GFLOP/s, the most that float32 reaches here, three rounds would take 60 s at best."
    ]


def test_what_proves_slow_is_left_out(monkeypatch):
    cases = [Case(name, lambda: torch.ones(1)) for name in ("first", "slow", "last", "too much")]
    clock = iter([0.0, 4.0, 10.0, 21.0, 30.0, 34.9, 40.0, 46.0])  # start and end of each first run
    monkeypatch.setattr(runner, "perf_counter", lambda: next(clock))
    own = measure("x", experiment(*cases), "cpu", LIMITS, rounds=1)
    assert [row.name for row in own.rows] == ["first", "slow"]  # 12 s and 33 s of 45 s
    assert own.left_out == [
        "Left out: 'last', as one run takes 4.9 s.",
        "Left out: 'too much', as one run takes 6.0 s.",
    ]
    clock = iter([0.0, 15.1])
    own = measure("x", experiment(cases[0]), "cpu", LIMITS, rounds=1)
    assert own.rows == [] and own.left_out == ["Left out: 'first', as one run takes 15.1 s."]


def test_only_the_first_result_is_kept_in_memory():
    alive, seen = [], []

    def run():
        seen.append([each() is not None for each in alive])
        result = torch.ones(2)
        alive.append(weakref.ref(result))
        return result

    measure("x", experiment(*(Case(name, run) for name in "abc")), "cpu", LIMITS, rounds=1)
    assert seen[2] == [True, False], "while the third runs, the second is gone"


def test_a_case_with_other_numbers_is_left_out_and_named():
    wrong = Case("other", lambda: torch.zeros(2))
    cases = [Case("one", lambda: torch.ones(2)), wrong, Case("third", lambda: torch.ones(2))]
    own = measure("x", experiment(*cases), "cpu", LIMITS, rounds=1)
    assert [row.name for row in own.rows] == ["one", "third"]
    (sentence,) = own.left_out
    assert sentence.startswith("Left out: 'other' is not the same function as the first case: results differ by 1 of")


def test_without_transformers_its_rows_are_missing_with_a_sentence(monkeypatch):
    def missing(self):
        raise ImportError("no transformers")

    monkeypatch.setattr(llama.LlamaAttention, "to_transformers", missing)
    assert convert_modules(build_modules(8, 4, 2, 16, "cpu", "float32")) == {}
    prefill = next(llama.llama_forms("cpu", True))
    assert prefill.left_out == [MISSING] and len(prefill.cases) == 2


def test_the_floor_is_the_same_function_when_widths_differ():
    split = MultiHeadAttention(11, 13, 3, d_qk=6, d_v=15).double()
    x = torch.randn(2, 5, 11, dtype=torch.float64)
    torch.testing.assert_close(forms.linears_and_sdpa(split, x), split(x))
