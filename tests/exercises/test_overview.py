"""What `progress` shows: all sets in one short table, or one of them."""

import json
import re

import pytest

from course_lib.exercises import check, progress
from course_lib.exercises.catalogue import EXERCISES, SETS

from .small_answers import reversed_order, right, stub, unscaled


def test_all_sets_in_one_short_table(workspace):
    check("scores_of_token", reversed_order())
    check("scores_of_token", right())
    check("scaled_scores", unscaled())
    lines = repr(progress()).splitlines()
    left = sum(each.minutes for each in EXERCISES.values()) - 3
    left_01 = sum(each.minutes for each in EXERCISES.values() if each.lesson == "01") - 3
    points_01 = sum(each.difficulty for each in EXERCISES.values() if each.lesson == "01")
    assert lines[0] == f"1 of {len(EXERCISES)} exercises passed in 3 attempts, about {left} minutes left."
    assert lines[1].split() == ["lesson", "passed", "points", "attempts", "minutes", "left", "next"]
    assert lines[2].split() == ["01", "1", "of", "6", "1", "of", str(points_01), "3", str(left_01), "scaled_scores"]
    assert [line.split()[0] for line in lines[2:-1]] == list(SETS)
    assert lines[-1:] == ["Next: lesson 01, scaled_scores: All scores at once, scaled."]
    html = progress()._repr_html_()
    assert f"<caption>{lines[0].removesuffix('.')}</caption>" in html
    assert html.count("<tr>") == len(SETS) + 1 and html.count('<th scope="row">') == len(SETS)
    assert html.count('<th scope="col">') == 6
    assert "<code>scaled_scores</code>" in html and "color" not in html


def test_the_next_one_is_the_first_that_is_open(workspace):
    check("scaled_scores", lambda queries, keys: queries @ keys.T / queries.shape[-1] ** 0.5)
    assert "Next: lesson 01, scores_of_token: One token's scores by hand." in repr(progress())
    assert repr(progress()).startswith(f"1 of {len(EXERCISES)} exercises passed in 1 attempt, about")


def test_all_done_is_said(file):
    done = {"done": True, "attempts": 1, "first_passed": "2026-01-02T03:04:05+00:00"}
    file.write_text(json.dumps({"exercises": dict.fromkeys(EXERCISES, done)}), encoding="utf-8")
    lines = repr(progress()).splitlines()
    count = len(EXERCISES)
    assert lines[0] == f"{count} of {count} exercises passed in {count} attempts." and len(lines) == len(SETS) + 2
    assert lines[2].split()[:4] == ["01", "6", "of", "6"] and lines[2].split()[-2:] == ["6", "0"]


def test_one_set_is_shown_as_before(workspace):
    check("scores_of_token", right())
    first, second = repr(progress("01")).splitlines()[:2]
    assert first == "1 of 6 exercises passed." and second.split() == ["01", "scores_of_token", "✓", "passed"]
    assert repr(progress(2)).startswith("0 of 8 exercises passed.") and "not tried" in repr(progress("2"))


@pytest.mark.parametrize("lesson", ["99", "one", 99, ""])
def test_a_set_that_is_none_is_refused_by_a_sentence(lesson):
    said = f"lesson is {lesson!r}, which has no exercises: choose among {', '.join(SETS)}."
    with pytest.raises(ValueError, match=re.escape(said)):
        progress(lesson)


def test_outside_of_a_workspace_it_is_the_lessons_of_this_kernel(kernel):
    assert repr(progress()) == "No exercise was checked yet."
    check("split_heads", stub)
    assert {exercise.lesson for exercise, _ in progress().rows} == {"04"}
