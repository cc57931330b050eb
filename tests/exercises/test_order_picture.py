"""The picture below the check of an ordering exercise: what the recorder saw of the learner's own order."""

import re

import pytest
import torch

from course_lib.exercises import check
from course_lib.exercises.lines_run import run_lines

OTHER = "not what this line makes in a right order"


def words(order):
    verdict = check("order_of_lines", lambda: order)
    return verdict, verdict.picture.description.splitlines()


def wrong(lines):
    """Letter -> what is said of it, for the lines that are marked."""
    pairs = zip(lines[1::2], lines[2::2], strict=True)
    return {line[0]: said.strip() for line, said in pairs if "✗" in said}


def test_a_right_order_shows_each_line_with_its_shape_and_effect():
    verdict, lines = words("FIBDHKAEJGC")
    assert verdict.passed and not wrong(lines)
    assert [line[0] for line in lines[1::2]] == list("FIBDHKAEJGC")
    assert verdict.picture.caption == "Every line finds what it reads, and the result is right."
    said = dict(zip((line[0] for line in lines[1::2]), lines[2::2], strict=True))
    assert "queries, keys and values: shape (5, 2, 28), computed" in said["F"]
    assert "queries, keys and values: shape (5, 4, 2, 7), a view: no element moved" in said["B"]
    assert "merged: shape (5, 2, 28), copied to new memory" in said["G"]


@pytest.mark.parametrize(
    ("order", "marked", "left_out"),
    [
        ("FIBDHAKEJGC", {"A": OTHER}, "the 5 lines after these are left out"),  # softmax before the mask
        ("FIBDKHAEGJC", {"G": OTHER}, "the 2 lines after these are left out"),  # the mask before the scale is right
        ("FIDHBKAEJGC", {"D": OTHER, "K": "it stops: The size of tensor a (2)"}, "the 5 lines"),
        ("IFBDHKAEJGC", {"I": "it stops: name 'queries' is not defined"}, "the 10 lines"),
        ("FDIBHKAEJGC", {"D": "it stops: Dimension out of range"}, "the 9 lines"),
        ("FIBDHKAEJCG", {"C": "it stops: name 'merged' is not defined"}, "the line after these is left out"),
    ],
)
def test_a_wrong_order_is_drawn_to_the_line_that_fails_or_makes_something_else(order, marked, left_out):
    verdict, lines = words(order)
    found = wrong(lines)
    assert not verdict.passed and found.keys() == marked.keys()
    assert all(text in found[letter] for letter, text in marked.items()), found
    assert verdict.picture.caption.startswith("Begin at the first ✗") and left_out in verdict.picture.caption
    drawn = re.sub(r"<[^>]+>", "\n", verdict.picture.svg).replace("&gt;", ">")
    for line in lines[1:]:  # words and drawing are made from the same data
        assert line.strip().rstrip(".")[:60].split("  ")[-1] in drawn


def test_the_picture_stands_below_the_verdict():
    verdict, lines = words("FIBDHAKEJGC")
    assert repr(verdict).startswith("✗ order_of_lines: not passed yet.") and lines[1] in repr(verdict)
    assert "<strong>✗ order_of_lines" in verdict._repr_html_() and "<img alt=" in verdict._repr_html_()


@pytest.mark.parametrize("order", ["FIB", 7, "FIBDHKAEJGCC"])
def test_no_order_of_all_lines_has_no_picture(order):
    assert not hasattr(check("order_of_lines", lambda: order), "picture")


def test_lines_run_until_one_fails():
    run = run_lines(["y = x + 1", "x = y * 2", "z = nothing", "w = 1"], {"x": torch.ones(3)})
    assert [list(made) for made in run.made] == [["y"], ["x"]] and isinstance(run.error, NameError)
    assert run.value("x").tolist() == [4, 4, 4] and run.value("w") is None
