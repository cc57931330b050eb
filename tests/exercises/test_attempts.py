"""What `check` adds when a learner tries again: the same code, the same mistake, where to read on."""

import pytest

from course_lib.exercises import ALL, check
from course_lib.exercises.verdict import Verdict
from course_lib.mistakes import CATALOGUE

from .small_answers import reversed_order, right, stub, unscaled

SAME = "This is the same code as at the last check. Did the cell with your answer run without an error?"
PAGE = "https://attention-course.github.io/attention-course/mistakes/missing-scale.html"

pytestmark = pytest.mark.usefixtures("kernel")


# --- the same code ---


def test_the_same_function_again_is_told():
    answer = unscaled()
    assert SAME not in repr(check("scaled_scores", answer))
    again = check("scaled_scores", answer)
    assert repr(again).splitlines()[1].strip() == SAME and f"<li>{SAME}</li>" in again._repr_html_()
    assert SAME not in repr(check("scaled_scores", unscaled())), "the same words, but the cell was run"


def test_the_same_code_again_gets_the_next_hint():
    answer = reversed_order()
    first, second, third = (repr(check("scores_of_token", answer)) for _ in range(3))
    hints = ALL["scores_of_token"].hints
    assert hints[0] not in first and SAME in second and hints[0] in second and hints[1] in third


def test_the_same_stub_again_is_told():
    check("scaled_scores", stub)
    assert SAME in repr(check("scaled_scores", stub))


def test_another_exercise_in_between_changes_nothing():
    answer = unscaled()
    check("scaled_scores", answer)
    check("scores_of_token", right())
    assert SAME in repr(check("scaled_scores", answer))


def test_the_same_class_again_is_told():
    class SingleHead:
        pass

    check("SingleHead", SingleHead)
    assert SAME in repr(check("SingleHead", SingleHead))


def test_what_passed_may_be_checked_again():
    answer = right()
    first = check("scores_of_token", answer)
    assert check("scores_of_token", answer) == first and SAME not in repr(first)


def test_a_helper_that_was_mended_is_not_the_same_code():
    scale = 2.0

    def scaled_scores(queries, keys):
        return queries @ keys.T * scale

    check("scaled_scores", scaled_scores)
    scale = 1.0
    assert SAME not in repr(check("scaled_scores", scaled_scores))


@pytest.mark.parametrize("answer", [None, ..., 3, "no-softmax"])
def test_what_is_no_code_is_not_compared(answer):
    check("split_heads", answer)
    assert SAME not in repr(check("split_heads", answer))


# --- the same mistake ---


def test_three_tries_with_one_mistake_say_more_and_more():
    first, second, third = (repr(check("scaled_scores", unscaled())) for _ in range(3))
    mistake = CATALOGUE["missing-scale"]
    assert f"Ask yourself: {mistake.hint}" in first and "Hint" not in first and PAGE not in first
    assert second == f"{first}\n  Hint: {mistake.shows}"
    section = "Read the section: Why divide by the square root of the width?, in lesson 01"
    assert third == f"{second}\n  {section}\n  See it beside the right code: {PAGE}"
    assert repr(check("scaled_scores", unscaled())) == third, "there is no more to say"


def test_the_same_code_is_told_more_each_time_too():
    answer = unscaled()
    first, second, third = (repr(check("scaled_scores", answer)) for _ in range(3))
    assert "Hint" not in first and "Hint" in second and PAGE not in second and PAGE in third


def test_the_same_code_keeps_what_was_said():
    check("scaled_scores", unscaled())
    answer = unscaled()
    before = repr(check("scaled_scores", answer)).splitlines()
    again = repr(check("scaled_scores", answer)).splitlines()
    assert again[: len(before) + 1] == [before[0], f"  {SAME}", *before[1:]] and PAGE in again[-1]


@pytest.mark.parametrize("between", [reversed_order, right, lambda: lambda q, k: q @ k.T / q.shape[1]])
def test_another_mistake_or_a_right_answer_starts_anew(between):
    check("scaled_scores", unscaled())
    check("scaled_scores", between() if between is not right else lambda q, k: q @ k.T / q.shape[1] ** 0.5)
    assert "Hint" not in repr(check("scaled_scores", unscaled()))


def test_other_exercises_are_counted_apart():
    check("scaled_scores", unscaled())
    assert "Hint" not in repr(check("attention", lambda q, k, v: (q @ k.T).softmax(-1) @ v))


def test_a_mistake_without_a_name_gets_the_hints_of_the_sheet():
    first, second, third, fourth = (repr(check("scores_of_token", reversed_order())) for _ in range(4))
    hints = ALL["scores_of_token"].hints
    assert "Hint" not in first and second == f"{first}\n  Hint: {hints[0]}" and third == f"{second}\n  Hint: {hints[1]}"
    assert fourth == third, "the last hint nearly gives it away: it stays folded"


def test_only_words_grow():
    verdicts = [check("scaled_scores", unscaled()) for _ in range(3)]
    for verdict in verdicts:
        assert isinstance(verdict, Verdict) and not verdict
        assert (verdict.message, verdict.mistake, verdict.hint) == (
            verdicts[0].message,
            "missing-scale",
            CATALOGUE["missing-scale"].hint,
        )
