"""Goals are judged by planted numbers."""

import pytest

from course_lib.timing import MachineLimits, Measurement, Results
from tests.timing.planted_results import LIMITS, MACHINE, table
from tools.performance.cases import forms, llama, multi_query, prefill_decode
from tools.performance.experiment import BACKWARD
from tools.performance.goals import judge


def judged(*tables, limits=(LIMITS,)):
    return judge(Results(MACHINE, list(limits), list(tables)))


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
    own = Measurement(
        prefill_decode.ATTEND_FUSED, (own_ms,), cache_bytes=10_000_000, flops=10_000_000
    )  # 1 ms of reading
    return table("mqa-decode", [(prefill_decode.BROADCAST, [120.0]), own], **options)


@pytest.mark.parametrize(("own_ms", "faster", "reading"), [(1.99, True, True), (2.0, True, True), (2.01, False, False)])
def test_decoding_against_broadcasting_and_against_reading(own_ms, faster, reading):
    speed, distance = judged(decode_table(own_ms))
    assert (speed.met, speed.measured, speed.sense) == (faster, pytest.approx(120 / own_ms), "at least")
    assert (distance.met, distance.measured) == (reading, pytest.approx(own_ms))
    assert distance.note == "the multiplications alone take 0.10 times the reading"


def test_decoding_is_judged_in_float32_and_where_it_was_measured():
    assert judged(decode_table(1.0, dtype="bfloat16"), table("mqa-decode", [(prefill_decode.BROADCAST, [1.0])])) == []


def test_on_a_gpu_bfloat16_is_held_against_reading_too():
    gpu = MachineLimits("cuda", "bfloat16", 100.0, 10.0, 8.0)
    (goal,) = judged(decode_table(3.0, dtype="bfloat16", device="cuda"), limits=(gpu,))
    assert (goal.measured, goal.met) == (pytest.approx(3.0), False)


@pytest.mark.parametrize(("peak", "met"), [(9, True), (10, False)])
def test_the_memory_of_decoding_against_the_cache(peak, met):
    rows = [
        Measurement("MHA, fused", (1.0,), peak_bytes=10, cache_bytes=1000),
        Measurement("MQA, fused", (1.0,), peak_bytes=peak, cache_bytes=100),
        Measurement("MQA, explicit", (1.0,), peak_bytes=100, cache_bytes=100),
    ]
    explicit, fused = judged(table("cache", rows))
    assert (fused.met, fused.measured, fused.note) == (met, pytest.approx(1 + peak / 100), "worst of 2: 'MQA, fused'")
    assert (explicit.met, explicit.measured) == (False, 2.0) and "holds scores and weights" in explicit.note


def test_memory_that_was_not_measured_is_not_judged():
    assert judged(table("cache", [Measurement("MHA, fused", (1.0,), cache_bytes=10)])) == []


def test_prefill_on_a_gpu_has_a_goal_of_its_own():
    rows = [(forms.FUSED, [1.08]), (forms.FLOOR, [1.0])]
    floor, gpu = judged(table("forms", rows, device="cuda", dtype="bfloat16"))
    assert (floor.met, floor.bound) == (False, 1.05) and (gpu.met, gpu.bound) == (True, 1.1)
    assert len(judged(table("forms", rows, dtype="bfloat16"))) == 1
