"""The example of each mistake: the doctor names it on the marked line, and finds nothing once it is corrected."""

from functools import cache

import pytest

from course_lib.mistakes import CATALOGUE
from tools.book.mistake_code import read_example, run_example
from tools.notebooks.lint_outputs import wide_lines

every_mistake = pytest.mark.parametrize("name", CATALOGUE)
diagnosed = cache(run_example)  # many corrections lead to the same code


@pytest.fixture
def example(name):
    return read_example(CATALOGUE[name].example)


@pytest.mark.one_in(4)
@every_mistake
def test_the_doctor_names_the_mistake_alone_and_points_at_a_wrong_line(name, example):
    (finding,) = diagnosed(example.wrong, example.call).findings
    assert finding.mistake == name
    assert finding.where.line in example.wrong_lines, finding


def test_what_was_measured_is_said_with_the_numbers_of_tokens():
    wrong = read_example(CATALOGUE["depends-on-length"].example)
    (finding,) = diagnosed(wrong.wrong, wrong.call).findings
    assert "without the last 1 of 5 tokens, the outputs of the first 4 are up to" in finding.evidence


@pytest.mark.one_in(60)
@every_mistake
def test_the_doctor_finds_nothing_in_the_corrected_code(name, example):
    report = diagnosed(example.right, example.call)
    assert report.ok, report


@every_mistake
def test_wrong_and_right_differ_in_the_marked_lines_only(name, example):
    assert "# wrong" not in example.wrong + example.right
    assert "# instead" not in example.wrong + example.right
    wrong, right = example.wrong.splitlines(), example.right.splitlines()
    unmarked = [line for number, line in enumerate(wrong, 1) if number not in example.wrong_lines]
    remaining = iter(right)
    assert all(line in remaining for line in unmarked)  # in the same order
    assert example.wrong != example.right


@every_mistake
def test_no_line_of_code_is_cut_off(name, example):
    assert list(wide_lines("\n".join((example.wrong, example.right, example.call)))) == []
