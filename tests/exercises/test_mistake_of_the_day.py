"""The drawn modules run, have the one mistake that they are drawn for, and judge answers."""

import re
from collections import Counter

import pytest
import torch

from course_lib.diagnosis import diagnose
from course_lib.exercises import mistake_of_the_day
from course_lib.exercises.catalogue import SETS
from course_lib.exercises.drawn_mistakes import MISTAKES, draw_faulty_module
from course_lib.mistakes import CATALOGUE


@pytest.mark.slow
@pytest.mark.one_in(15)
@pytest.mark.parametrize("number", range(60))
def test_the_doctor_finds_the_mistake_that_was_drawn(number):
    patient = draw_faulty_module(number)
    torch.manual_seed(0)
    module = patient.build()
    x = torch.randn(2, 5, 7)
    assert module(x).shape == (2, 5, 24)
    report = diagnose(module, x, causal=True, num_heads=6, num_kv_heads=2)
    assert [one.mistake for one in report.findings][:1] == [patient.mistake], report


@pytest.mark.slow
def test_every_mistake_is_drawn_and_hardly_any_code_twice():
    patients = [draw_faulty_module(number) for number in range(120)]
    drawn = Counter(one.mistake for one in patients)
    assert set(drawn) == set(MISTAKES) <= set(CATALOGUE)
    assert len({one.source for one in patients}) == 120
    assert draw_faulty_module(7) == draw_faulty_module(7)


def test_it_shows_its_code_and_judges_answers():
    patient = mistake_of_the_day(3)
    assert repr(patient).startswith("class ") and "nn.Module" in patient._repr_html_()
    right = draw_faulty_module(3).mistake
    verdict = patient.answer(right)
    assert verdict.passed and "The doctor saw: " in verdict.message and CATALOGUE[right].title in verdict.message
    assert patient.answer(CATALOGUE[right].title)
    wrong = patient.answer("rotary-unused")
    assert not wrong and wrong.message.startswith("It is not `rotary-unused`.") and wrong.hint
    assert "Names that are near" in patient.answer("maskk-discarded").message
    assert right not in repr(patient)


def test_today_has_one_of_its_own(monkeypatch):
    assert mistake_of_the_day().number > 700_000


@pytest.mark.parametrize("number", [-1, 1.5, "3", True])
def test_a_number_that_is_none(number):
    with pytest.raises(ValueError, match="number must be an integer from 0"):
        mistake_of_the_day(number)


def test_an_answer_that_is_no_name():
    with pytest.raises(TypeError, match="such as 'no-softmax', got a int"):
        mistake_of_the_day(3).answer(3)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", range(4))
def test_what_is_said_of_a_wrong_name_is_no_claim_that_the_module_confirms(number):
    patient = mistake_of_the_day(number)
    right = draw_faulty_module(number).mistake
    lines = {line.strip() for line in patient.source.splitlines()}
    for name, entry in CATALOGUE.items():
        if name == right:
            continue
        message = patient.answer(name).message
        assert entry.shows not in message and right not in message and CATALOGUE[right].title not in message
        assert message.endswith("?"), message
        quoted = re.findall(r"look at for that: `(.+)`\.", message)
        assert not quoted or quoted[0] in lines, message


@pytest.mark.slow
@pytest.mark.parametrize("name", ["missing-scale", "mask-with-zero", "split-without-transpose", "kv-heads-tiled"])
def test_the_line_for_a_wrong_name_is_quoted(name):
    numbers = (number for number in range(200) if draw_faulty_module(number).mistake != name)
    for number, _ in zip(numbers, range(8), strict=False):
        assert "The line to look at for that: `" in mistake_of_the_day(number).answer(name).message


@pytest.mark.slow
def test_it_tells_how_to_run_a_probe_and_where_the_names_are():
    text = SETS["15"].last[0][0]
    assert "`module.build()`" in text and "(batch, token, 7)" in text and "2 kv heads" in text
    assert "Print the catalogue" in mistake_of_the_day(3).answer("xyz").message
    assert "no-softmax" not in mistake_of_the_day(3).answer("xyz").message
