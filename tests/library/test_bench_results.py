"""Results survive the way through JSON; goals are judged by planted numbers; what can't run is left out and named."""

import json
import types
import weakref
from dataclasses import replace

import pytest
import torch

from course_lib.bench import results as results_module
from course_lib.bench import runner
from course_lib.bench.case import BACKWARD, Case, Experiment
from course_lib.bench.cases import forms, llama, multi_query, shared_heads
from course_lib.bench.cases.llama import MISSING, build_modules
from course_lib.bench.goals import judge
from course_lib.bench.results import Goal, Limits, Results, Row, Table, load_results, stored
from course_lib.bench.runner import measure
from course_lib.bench.tables import format_goals, format_machine, format_tables

LIMITS = Limits("cpu", "float32", 100.0, 10.0, 8.0)
MACHINE = {
    "processor": "P",
    "cores": 4,
    "threads": 2,
    "memory_bytes": 8_000_000_000,
    "gpu": None,
    "gpu_memory_bytes": None,
    "torch": "2.13",
    "cuda": None,
    "python": "3.11",
    "system": "Linux",
    "date": "2026-11-21",
}


def table(name, rows, *, dtype="float32", direction="forward", device="cpu", **sizes):
    """Rows given as name=times, or as Row."""
    made = [row if isinstance(row, Row) else Row(row[0], tuple(row[1])) for row in rows]
    return Table(name, f"title of {name}", device, dtype, direction, sizes, made)


def judged(*tables, limits=(LIMITS,)):
    return judge(Results(MACHINE, list(limits), list(tables)))


# --- results ---


def test_results_survive_the_way_through_a_file(tmp_path):
    row = Row("a", (1.5, 2.5, 9.0), 1.0, peak_bytes=7, cache_bytes=8, bytes=9, flops=10, limit_ms=0.5)
    results = Results(
        MACHINE,
        [LIMITS],
        [table("forms", [row, Row("b", (1.0,), 0.5)], batch=2)],
        [Goal("g", "w", 1.0, 2.0, "at most", True, "n")],
    )
    path = tmp_path / "x.json"
    path.write_text(results.to_json(), encoding="utf-8")
    assert load_results(path) == results
    plain = json.loads(results.to_json())
    assert plain["groups"][0]["rows"][0]["median_ms"] == 2.5
    assert plain["groups"][0]["rows"][0]["quartiles_ms"] == [2.0, 5.75]
    assert plain["groups"][0]["rows"][0]["times_limit"] == 5.0
    assert plain["groups"][0]["rows"][1]["quartiles_ms"] == [1.0, 1.0]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"groups": [{}], "machine": {}, "limits": [], "goals": []}'])
def test_other_files_are_refused(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="this is not the JSON of `course bench --json`"):
        load_results(path)


def test_stored_results_are_found_by_device(tmp_path, monkeypatch):
    monkeypatch.setattr(results_module, "MEASURED", tmp_path)
    results = Results(MACHINE, [], [])
    (tmp_path / "cpu.json").write_text(results.to_json(), encoding="utf-8")
    assert stored("cpu") == results
    with pytest.raises(FileNotFoundError, match=r"no stored benchmark of 'cuda', only of \['cpu'\]: run `course bench"):
        stored("cuda")


def test_what_is_stored_is_well_formed():
    for path in results_module.MEASURED.glob("*.json"):
        own = load_results(path)
        assert own.goals == judge(own), f"{path.name}: its goals are those of its numbers"
        assert own.groups and "processor" in own.machine


def test_tables_are_found_by_their_fields_and_sizes():
    results = Results(MACHINE, [], [table("a", [], key_len=4), table("a", [], key_len=8), table("b", [], key_len=8)])
    assert list(results.find("a", key_len=8, dtype="float32")) == [results.groups[1]]
    assert list(results.find("a", nothing=8)) == []


def test_a_row_is_found_by_name():
    own = table("a", [("x", [1.0])])
    assert own["x"].median_ms == 1.0
    with pytest.raises(KeyError, match=r"no row 'y' in 'title of a': there are \['x'\]"):
        own["y"]


# --- goals ---


@pytest.mark.parametrize(
    ("own", "met"),
    [
        ([0.9, 0.95, 0.97], True),
        ([0.98, 1.03, 1.04], True),  # the noise reaches down to 1.00, the median is below 1.05
        ([1.01, 1.03, 1.04], False),  # slower in every round, however little
        ([0.9, 1.06, 1.2], False),  # the noise is no excuse for more than 1.05
    ],
)
def test_the_explicit_form_against_its_worst_peer(own, met):
    (goal,) = judged(
        table("forms", [(forms.WRAPPER, [2.0] * 3), (forms.EXPLICIT, own), (forms.TORCH, [1.0] * 3)]),
    )
    assert goal.met is met and goal.measured == sorted(own)[1] and goal.bound == 1.0
    assert f"against 'nn.MultiheadAttention', 95% interval {min(own):.2f} to {max(own):.2f}" in goal.note


def test_every_pair_of_explicit_forms_is_judged():
    goals = judged(
        table("llama", [(llama.EXPLICIT, [3.0]), (llama.THEIRS_EAGER, [2.0])]),
        table(
            "multi-query", [(multi_query.EXPLICIT, [1.0]), (multi_query.BROADCAST, [2.0]), (multi_query.FUSED, [1.0])]
        ),
        table("llama", [(llama.EXPLICIT, [3.0])]),  # without transformers there is no peer
        table("forms", [(forms.WRAPPER, [3.0])]),
    )
    assert [(goal.measured, goal.met) for goal in goals] == [(1.5, False), (0.5, True)]


@pytest.mark.parametrize(("own", "met"), [(1.049, True), (1.051, False)])
def test_the_fused_form_against_the_floor(own, met):
    (goal,) = judged(table("forms", [(forms.FUSED, [own] * 3), (forms.FLOOR, [1.0] * 3)], direction=BACKWARD))
    assert (goal.met, goal.measured, goal.bound) == (met, own, 1.05)
    assert goal.where == "title of forms; cpu, float32, forward and backward"


def decode_table(own_ms, **options):
    own = Row(shared_heads.ATTEND_FUSED, (own_ms,), cache_bytes=10_000_000, flops=10_000_000)  # 1 ms of reading
    return table("mqa-decode", [(shared_heads.BROADCAST, [120.0]), own], **options)


@pytest.mark.parametrize(("own_ms", "faster", "reading"), [(1.99, True, True), (2.0, True, True), (2.01, False, False)])
def test_decoding_against_broadcasting_and_against_reading(own_ms, faster, reading):
    speed, distance = judged(decode_table(own_ms))
    assert (speed.met, speed.measured, speed.sense) == (faster, pytest.approx(120 / own_ms), "at least")
    assert (distance.met, distance.measured) == (reading, pytest.approx(own_ms))
    assert distance.note == "the multiplications alone take 0.10 times the reading"


def test_decoding_is_judged_in_float32_and_where_it_was_measured():
    assert judged(decode_table(1.0, dtype="bfloat16"), table("mqa-decode", [(shared_heads.BROADCAST, [1.0])])) == []


def test_on_a_gpu_bfloat16_is_held_against_reading_too():
    gpu = Limits("cuda", "bfloat16", 100.0, 10.0, 8.0)
    (goal,) = judged(decode_table(3.0, dtype="bfloat16", device="cuda"), limits=(gpu,))
    assert (goal.measured, goal.met) == (pytest.approx(3.0), False)


@pytest.mark.parametrize(("peak", "met"), [(9, True), (10, False)])
def test_the_memory_of_decoding_against_the_cache(peak, met):
    rows = [
        Row("MHA, fused", (1.0,), peak_bytes=10, cache_bytes=1000),
        Row("MQA, fused", (1.0,), peak_bytes=peak, cache_bytes=100),
        Row("MQA, explicit", (1.0,), peak_bytes=100, cache_bytes=100),
    ]
    explicit, fused = judged(table("cache", rows))
    assert (fused.met, fused.measured, fused.note) == (met, pytest.approx(1 + peak / 100), "worst of 2: 'MQA, fused'")
    assert (explicit.met, explicit.measured) == (False, 2.0) and "holds scores and weights" in explicit.note


def test_memory_that_was_not_measured_is_not_judged():
    assert judged(table("cache", [Row("MHA, fused", (1.0,), cache_bytes=10)])) == []


def test_prefill_on_a_gpu_has_a_goal_of_its_own():
    rows = [(forms.FUSED, [1.08]), (forms.FLOOR, [1.0])]
    floor, gpu = judged(table("forms", rows, device="cuda", dtype="bfloat16"))
    assert (floor.met, floor.bound) == (False, 1.05) and (gpu.met, gpu.bound) == (True, 1.1)
    assert len(judged(table("forms", rows, dtype="bfloat16"))) == 1


# --- tables ---


def test_the_machine_in_words():
    gpu = MACHINE | {"gpu": "G", "gpu_memory_bytes": 80e9, "cuda": "13.0", "memory_bytes": None}
    assert (
        format_machine(MACHINE, []) == "P, 4 cores, 2 threads used, 8 GB; PyTorch 2.13, Python 3.11, Linux, 2026-11-21"
    )
    lines = format_machine(gpu, [LIMITS]).splitlines()
    assert "unknown memory" in lines[0] and lines[1] == "G, 80 GB, CUDA 13.0"
    assert lines[2] == "cpu, float32: 100.0 GFLOP/s in a matrix product, 10.0 GB/s read, 8.0 GB/s copied"


def test_a_table_in_words():
    rows = [Row("first", (1.0, 2.0, 3.0), 1.0, 2_000_000, limit_ms=0.5), Row("second one", (4.0,), 2.0)]
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


# --- the runner ---


def experiment(*cases, **options):
    return Experiment("title", "float32", list(cases), {"batch": 1}, **options)


def test_costs_and_memory_stand_beside_the_times():
    x = torch.ones(1000, requires_grad=True)
    case = Case("one", lambda: x + x, (x,), bytes=20_000_000, flops=100_000_000, cache_bytes=5)
    forward = measure("forms", experiment(case), "cpu", LIMITS, rounds=2)
    (row,) = forward.rows
    assert (row.peak_bytes, row.cache_bytes, row.bytes, row.limit_ms) == (4000, 5, 20_000_000, 2.0)
    backward = measure("forms", experiment(case, direction=BACKWARD), "cpu", LIMITS, rounds=2, memory=False)
    assert (backward.rows[0].flops, backward.rows[0].limit_ms) == (300_000_000, 6.0)
    assert backward.rows[0].peak_bytes is None and forward.left_out == []


def test_a_case_that_does_not_fit_is_left_out(monkeypatch):
    large = Case("large", lambda: torch.ones(1), needs=4_000_000_000)
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
    own = measure("x", experiment(*cases), "cpu", LIMITS, rounds=1, memory=False)
    assert [row.name for row in own.rows] == ["first", "slow"]  # 12 s and 33 s of 45 s
    assert own.left_out == [
        "Left out: 'last', as one run takes 4.9 s.",
        "Left out: 'too much', as one run takes 6.0 s.",
    ]
    clock = iter([0.0, 15.1])
    own = measure("x", experiment(cases[0]), "cpu", LIMITS, rounds=1, memory=False)
    assert own.rows == [] and own.left_out == ["Left out: 'first', as one run takes 15.1 s."]


def test_only_the_first_result_is_kept_in_memory():
    alive, seen = [], []

    def run():
        seen.append([each() is not None for each in alive])
        result = torch.ones(2)
        alive.append(weakref.ref(result))
        return result

    measure("x", experiment(*(Case(name, run) for name in "abc")), "cpu", LIMITS, rounds=1, memory=False)
    assert seen[2] == [True, False], "while the third runs, the second is gone"


def test_a_case_with_other_numbers_is_left_out_and_named():
    wrong = Case("other", lambda: torch.zeros(2))
    cases = [Case("one", lambda: torch.ones(2)), wrong, Case("third", lambda: torch.ones(2))]
    own = measure("x", experiment(*cases), "cpu", LIMITS, rounds=1)
    assert [row.name for row in own.rows] == ["one", "third"]
    (sentence,) = own.left_out
    assert sentence.startswith("Left out: 'other' is not the same function as the first case: results differ by 1 of")


# --- cases ---


def test_without_transformers_its_rows_are_missing_with_a_sentence(monkeypatch):
    def missing(self):
        raise ImportError("no transformers")

    monkeypatch.setattr(llama.LlamaAttention, "to_transformers", missing)
    assert list(build_modules(8, 4, 2, 16, "cpu", "float32")) == [llama.EXPLICIT, llama.FUSED]
    prefill = next(llama.llama_forms("cpu", True))
    assert prefill.left_out == [MISSING] and len(prefill.cases) == 2


def test_the_floor_is_the_same_function_when_widths_differ():
    from course_lib.attention import MultiHeadAttention

    split = MultiHeadAttention(11, 13, 3, d_qk=6, d_v=15).double()
    x = torch.randn(2, 5, 11, dtype=torch.float64)
    torch.testing.assert_close(forms.linears_and_sdpa(split, x), split(x))
