"""What `progress` shows: all sets in one short table, or one of them."""

import json
import re

import pytest
from exercises.small_answers import reversed_order, right, stub, unscaled

from course_lib.exercises import check, progress
from course_lib.exercises.catalogue import EXERCISES


def test_all_sets_in_one_short_table(workspace):
    check("scores_of_token", reversed_order())
    check("scores_of_token", right())
    check("scaled_scores", unscaled())
    lines = repr(progress()).splitlines()
    left = sum(each.minutes for each in EXERCISES.values()) - 3
    assert lines[0] == f"1 of 32 exercises passed in 3 attempts, about {left} minutes left."
    assert lines[1].split() == ["lesson", "passed", "attempts", "minutes", "left", "next"]
    assert lines[2].split() == ["01", "1", "of", "5", "3", "23", "scaled_scores"]
    assert [line.split()[0] for line in lines[2:9]] == ["01", "02", "03", "04", "05", "06", "10"]
    assert lines[9:] == ["Next: lesson 01, scaled_scores: All scores at once, scaled."]
    html = progress()._repr_html_()
    assert f"<caption>{lines[0].removesuffix('.')}</caption>" in html
    assert html.count("<tr>") == 8 and html.count('<th scope="row">') == 7 and html.count('<th scope="col">') == 5
    assert "<code>scaled_scores</code>" in html and "color" not in html


def test_the_next_one_is_the_first_that_is_open(workspace):
    check("scaled_scores", lambda queries, keys: queries @ keys.T / queries.shape[-1] ** 0.5)
    assert "Next: lesson 01, scores_of_token: One token's scores by hand." in repr(progress())
    assert repr(progress()).startswith("1 of 32 exercises passed in 1 attempt, about")


def test_all_done_is_said(file):
    done = {"done": True, "attempts": 1, "first_passed": "2026-01-02T03:04:05+00:00"}
    file.write_text(json.dumps({"exercises": dict.fromkeys(EXERCISES, done)}), encoding="utf-8")
    lines = repr(progress()).splitlines()
    assert lines[0] == "32 of 32 exercises passed in 32 attempts." and len(lines) == 9
    assert lines[2].split() == ["01", "5", "of", "5", "5", "0"]


def test_one_set_is_shown_as_before(workspace):
    check("scores_of_token", right())
    assert repr(progress("01")).splitlines()[:2] == ["1 of 5 exercises passed.", "  01  scores_of_token  ✓ passed"]
    assert repr(progress(2)).startswith("0 of 5 exercises passed.") and "not tried" in repr(progress("2"))


@pytest.mark.parametrize("lesson", ["99", "one", 7, ""])
def test_a_set_that_is_none_is_refused_by_a_sentence(lesson):
    said = f"lesson is {lesson!r}, which has no exercises: choose among 01, 02, 03, 04, 05, 06, 10."
    with pytest.raises(ValueError, match=re.escape(said)):
        progress(lesson)


def test_outside_of_a_workspace_it_is_the_lessons_of_this_kernel(kernel):
    assert repr(progress()) == "No exercise was checked yet."
    check("split_heads", stub)
    assert {exercise.lesson for exercise, _ in progress().rows} == {"04"}
