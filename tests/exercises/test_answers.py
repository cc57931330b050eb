"""Every exercise takes right answers in any style and names what is wrong with the others; grading says the same."""

import re

import pytest

from course_lib.exercises import ALL, ModuleExercise, NameExercise, check, checking
from course_lib.exercises.catalogue import BLANKS, EXERCISES
from course_lib.mistakes import CATALOGUE

from .graded_here import graded, guest_module
from .known_answers import RIGHT, WRONG

RIGHT_CASES = [
    pytest.param(name, one, id=f"{name}-{at}") for name, all_ in RIGHT.items() for at, one in enumerate(all_)
]
WRONG_CASES = [
    pytest.param(name, one, words, id=f"{name}-{at}-{words[0][:30]}")
    for name, all_ in WRONG.items()
    for at, (one, *words) in enumerate(all_)
]


@pytest.mark.parametrize("name", EXERCISES)
def test_there_are_enough_answers(name):
    assert len(RIGHT[name]) >= 3 and len(WRONG.get(name, ())) + len(getattr(ALL[name], "known", ())) >= 5


@pytest.mark.parametrize("name", BLANKS)
def test_there_are_enough_answers_to_a_blank(name):
    assert name not in EXERCISES
    assert len(RIGHT[name]) >= 2 and len(WRONG.get(name, ())) + len(getattr(ALL[name], "known", ())) >= 3


@pytest.fixture(scope="module")
def guest():
    with guest_module() as guest:
        yield guest


@pytest.fixture
def check_both(guest, monkeypatch):
    """A function that judges an answer in practice and in grading, and returns the first verdict if both agree."""
    judged, remember = [], checking.remember
    monkeypatch.setattr(checking, "remember", lambda answer, one: (judged.append(one), remember(answer, one))[1])

    def check_both(name, answer):
        shown = check(name, answer)
        (practised,) = judged
        marked = checking._for_learner(graded(guest, name, answer, checking.SEED))
        assert (marked.state, marked.mistake, marked.hint) == (practised.state, practised.mistake, practised.hint)
        if not isinstance(ALL[name], NameExercise) and "stopped" not in practised.message:
            assert marked.message == practised.message and marked.evidence == practised.evidence
        return shown

    return check_both


@pytest.mark.one_in(30)
@pytest.mark.parametrize(("name", "answer"), RIGHT_CASES)
def test_a_right_answer_passes_in_any_style(name, answer, check_both):
    verdict = check_both(name, answer)
    assert verdict.passed, verdict
    assert repr(verdict).startswith(f"✓ {name}: passed.")
    if isinstance(ALL[name], ModuleExercise):
        assert re.fullmatch(r"Right on \d+ inputs of different sizes, with its gradients\.", verdict.message)


@pytest.mark.one_in(36)
@pytest.mark.parametrize(("name", "answer", "words"), WRONG_CASES)
def test_a_wrong_answer_is_named(name, answer, words, check_both):
    verdict = check_both(name, answer)
    assert not verdict, verdict
    for word in words:
        if word in CATALOGUE:
            assert verdict.mistake == word, verdict
        else:
            assert word in repr(verdict), verdict
    if words[0] not in CATALOGUE:
        assert verdict.mistake is None or verdict.mistake in words, verdict
    assert (
        verdict.hint or verdict.evidence or verdict.where or "it should be" in verdict.message or ":" in verdict.message
    )
    if isinstance(ALL[name], ModuleExercise) and isinstance(answer, type):
        assert verdict.state == "not passed yet" and (verdict.hint or verdict.where), verdict
