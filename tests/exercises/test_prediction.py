"""A prediction gives nothing away before there is a guess, and compares the guess afterwards."""

import pytest
import torch

from course_lib.exercises import predict


def said(capsys, *arguments) -> str:
    predict(*arguments)
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize("answer", [37, lambda: 37, "keys", torch.tensor(0.125)])
def test_nothing_is_given_away(answer, capsys):
    assert said(capsys, ..., answer) == "… No guess yet: write yours in place of the dots and run this cell again."


def test_the_answer_is_not_computed_without_a_guess(capsys):
    assert said(capsys, ..., lambda: 1 / 0).startswith("… No guess yet")


@pytest.mark.parametrize(
    ("guess", "answer", "shown"),
    [
        (6, 6, "✓ You guessed 6; it is 6."),
        (5, 6, "✗ You guessed 5; it is 6. Read on to see why."),
        (0.24, torch.tensor(0.25), "✓ You guessed 0.24; it is 0.25."),
        (0.2, 0.25, "✗ You guessed 0.2; it is 0.25. Read on to see why."),
        ("Keys ", "keys", "✓ You guessed Keys ; it is keys."),
        ("yes", True, "✓ You guessed yes; it is yes."),
        (False, True, "✗ You guessed no; it is yes. Read on to see why."),
        ([2, 6], torch.Size([2, 6]), "✓ You guessed (2, 6); it is (2, 6)."),
        (1, lambda: 1.04, "✓ You guessed 1; it is 1.04."),
    ],
)
def test_a_guess_is_compared(guess, answer, shown, capsys):
    assert said(capsys, guess, answer) == shown


def test_a_guess_of_another_kind():
    with pytest.raises(TypeError, match="The guess 'two' is a word; this prediction asks for a number"):
        predict("two", 2)
    with pytest.raises(TypeError, match="The guess 3 is a number; this prediction asks for yes or no"):
        predict(3, True)
