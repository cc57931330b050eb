"""Known wrong answers are read from text, and are edits of the solution or another body."""

import pytest
import torch

from course_lib.exercises import ALL
from course_lib.exercises.lesson_01.scores_of_token import scores_of_token
from course_lib.exercises.wrong_answers import EditedSolution, wrong_answers

QUERY, KEYS = torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 0.0], [3.0, 1.0]])
TEXT = """
.sum() => .mean()
    the mean of the products, which is not
        their sum [wrong-scale]
    ? Does a dot product divide?
result.flip(0)
    the scores in reverse
"""


def test_a_text_is_read():
    mean, reverse = wrong_answers(TEXT, scores_of_token)
    assert mean.equals == "the mean of the products, which is not their sum" and mean.mistake == "wrong-scale"
    assert mean.hint == "Does a dot product divide?" and reverse.mistake is reverse.hint is None
    assert mean.code(QUERY, KEYS).tolist() == [0.5, 2.5]
    assert reverse.code(QUERY, KEYS).tolist() == [5.0, 1.0]


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("keys @ query + 1", [2.0, 6.0]),
        ("right(query, 2 * keys)", [2.0, 10.0]),
        ("found = result + keys[:, 0]; return found * 2", [4.0, 16.0]),
        ("query * key => query + key && .sum() => .max()", [2.0, 4.0]),
        ("math.pi * result", [3.1415927, 15.7079633]),
    ],
)
def test_an_edit_or_another_body(code, result):
    assert EditedSolution(scores_of_token, code)(QUERY, KEYS).tolist() == pytest.approx(result)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("    a line\n", "begins with '    a line', which has no code above it"),
        ("keys\n", "'keys' needs one line that says what its result equals, has 0"),
        ("keys\n    one\n    two\n", "has 2"),
        ("keys\n    one\n    ? a\n    ? b\n", "'keys' has 2 questions"),
    ],
)
def test_a_text_that_can_not_be_read(text, words):
    with pytest.raises(ValueError, match=words):
        wrong_answers(text, scores_of_token)


def test_an_edit_that_no_longer_fits_is_told():
    with pytest.raises(ValueError, match="edit replaces 'nothing like it', which the source does not have"):
        EditedSolution(scores_of_token, "nothing like it => 1")(QUERY, KEYS)


@pytest.mark.parametrize("name", [name for name, exercise in ALL.items() if getattr(exercise, "known", ())])
def test_each_edit_fits_its_solution(name):
    assert all(callable(wrong.code.answer) for wrong in ALL[name].known)
