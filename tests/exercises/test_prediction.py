"""A prediction gives nothing away before there is a guess, compares it afterwards, and answers whatever is guessed."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from course_lib.exercises import predict

NO_GUESS = "… No guess yet: write yours in place of the dots and run this cell again."


def said(capsys, *arguments, **options) -> str:
    predict(*arguments, **options)
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize("answer", [37, lambda: 37, "keys", torch.tensor(0.125)])
def test_nothing_is_given_away(answer, capsys):
    assert said(capsys, ..., answer) == NO_GUESS


def test_the_exactness_is_said_before_there_is_a_guess(capsys):
    assert said(capsys, ..., 0.25, within=0.01) == f"{NO_GUESS}\nWithin 0.01 counts as right."


def test_the_answer_is_not_computed_without_a_guess(capsys):
    assert said(capsys, ..., lambda: 1 / 0).startswith("… No guess yet")


@pytest.mark.parametrize(
    ("guess", "answer", "within", "shown"),
    [
        (6, 6, 0, "✓ You guessed 6; it is 6."),
        (5, 6, 0, "✗ You guessed 5; it is 6. Read on to see why."),
        (0.24, torch.tensor(0.25), 0.01, "✓ You guessed 0.24; it is 0.25."),
        (0.75, torch.tensor(0.8), 0.01, "✗ You guessed 0.75; it is 0.8. Read on to see why."),
        (0.85, 0.8, 0.01, "✗ You guessed 0.85; it is 0.8. Read on to see why."),
        (0.24, 0.25, 0, "✗ You guessed 0.24; it is 0.25. Read on to see why."),
        (1 / 6, torch.tensor(1 / 6), 0, "✓ You guessed 0.1667; it is 0.1667."),
        ("Keys ", "keys", 0, "✓ You guessed Keys; it is keys."),
        ("yes", True, 0, "✓ You guessed yes; it is yes."),
        (" No", True, 0, "✗ You guessed no; it is yes. Read on to see why."),
        (False, True, 0, "✗ You guessed no; it is yes. Read on to see why."),
        ([2, 6], torch.Size([2, 6]), 0, "✓ You guessed (2, 6); it is (2, 6)."),
        (1, lambda: 1.04, 0.1, "✓ You guessed 1; it is 1.04."),
        (46, 43, 6, "✓ You guessed 46; it is 43."),
        (50, 43, 6, "✗ You guessed 50; it is 43. Read on to see why."),
        (4.0, 4, 0, "✓ You guessed 4; it is 4."),
    ],
)
def test_a_guess_is_compared(guess, answer, within, shown, capsys):
    assert said(capsys, guess, answer, within=within) == shown


@pytest.mark.parametrize(
    ("guess", "answer", "shown"),
    [
        ("two", 2, "… Your guess is two; this question asks for an integer."),
        (3, True, '… Your guess is 3; this question asks for "yes" or "no", in quotes.'),
        ("maybe", True, '… Your guess is maybe; this question asks for "yes" or "no", in quotes.'),
        (torch.zeros(9, 7), "k", "… Your guess is a tensor of shape (9, 7); this question asks for a word, in quotes."),
        (print, 0.5, "… Your guess is a builtin_function_or_method; this question asks for a number."),
        (None, (2, 6), "… Your guess is a NoneType; this question asks for several numbers, such as (30, 40)."),
        ("x" * 10**6, 2, f"… Your guess is {'x' * 60}…; this question asks for an integer."),
    ],
)  # fmt: skip
def test_a_guess_of_another_kind_gets_one_sentence(guess, answer, shown, capsys):
    assert said(capsys, guess, answer) == shown


SAME = {
    3: ["3", " 3 ", "3.0", "6/2", np.int64(3),
        np.float32(3), np.array(3), np.array([3]), [3], (3,), torch.tensor([[3]])],
    0.8: ["0.8", ".8", "4/5", "4 / 5", np.float64(0.8), np.float32(0.8), Fraction(4, 5), Decimal("0.8"),
          [Decimal("0.8")]],
    -2: ["-2", "'-2'", np.int8(-2), Fraction(-2), Decimal(-2)],
    (2, 6, 6): ["(2, 6, 6)", "2, 6, 6", "[2,6,6]", "torch.Size([2, 6, 6])", ("2", "6", "6"), np.array([2, 6, 6]),
                [np.int64(2), 6.0, Fraction(6)], torch.tensor([2, 6, 6])],
    (4,): [4, "4", "(4,)"],
    "and": ["and", '"and"', "'And'", "“and”", " and.", ["and"], np.str_("and"), np.array(["and"])],
    "sum": [sum],
    "lake": ["the lake", "The lake.", "a lake"],
    "the same word": ["the same word", "The same word"],
    ".": [".", '"."'],
}  # fmt: skip
NO = ["No.", "n", "'no'", "NO!", "false", np.bool_(False), torch.tensor([False]), ["no"]]


@pytest.mark.parametrize(
    ("guess", "answer"),
    [(guess, answer) for answer, guesses in SAME.items() for guess in guesses] + [(guess, False) for guess in NO],
)
def test_a_right_guess_may_be_written_in_many_ways(guess, answer, capsys):
    assert said(capsys, guess, answer).startswith("✓ You guessed ")


@pytest.mark.parametrize(
    ("guess", "answer", "shown"),
    [
        (-(10**99), 6, "✗ You guessed -inf; it is 6. Read on to see why."),
        ("1/0", 6, "… Your guess is 1/0; this question asks for an integer."),
        ("1e999999999", 6, "✗ You guessed inf; it is 6. Read on to see why."),
        ("a\nb\x1b[31m\tc", "k", "✗ You guessed a b [31m c; it is k. Read on to see why."),
        ((2, 6, ...), (2, 6, 6), NO_GUESS),
        ("...", 6, NO_GUESS),
        (torch.empty(3, device="meta"), 3,
         "… Your guess is a tensor of shape (3,); this question asks for an integer."),
        (torch.eye(2).to_sparse(), "k",
         "… Your guess is a tensor of shape (2, 2); this question asks for a word, in quotes."),
        (object(), 0.5, "… Your guess is an object; this question asks for a number."),
        (3, {"a": 1}, "… Your guess is 3; this question asks for a dict."),
        (3, torch.zeros(99, 7), "… Your guess is 3; this question asks for a Tensor."),
        (0, "and", "… Your guess is 0; this question asks for a word, in quotes."),
    ],
)  # fmt: skip
def test_an_odd_guess_gets_one_line_that_does_not_show_the_answer(guess, answer, shown, capsys):
    assert said(capsys, guess, answer) == shown


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize("answer", [6, 0.5, "k", True, (2, 6)])
def test_whatever_is_guessed_is_answered_in_a_line(answer, capsys):
    for guess in (10**5000, float("nan"), (1,) * 10**6, (10**5000,), torch.zeros(10**6), {}, 1j, object(), ""):
        assert len(said(capsys, guess, answer)) < 300


def test_an_answer_that_fails_is_said(capsys):
    message = "… The answer could not be computed (ZeroDivisionError): run the cells above, then this one again."
    assert said(capsys, 3, lambda: 1 / 0) == message


ITSELF = [1]
ITSELF.append(ITSELF)


@pytest.mark.parametrize("guess", [(True, 5), (1j, 5), "4x5", "4 × 5", "4 5", "4; 5", "4/5", "45", ((4, 5), 5)])
def test_what_is_no_row_of_numbers_is_not_judged(guess, capsys):
    assert "this question asks for several numbers" in said(capsys, guess, torch.Size([4, 5]))


@pytest.mark.parametrize(("guess", "answer"), [("\u200bcolumns", "columns"), ("\ufeff36", 36), ("4,\u200b 5", (4, 5))])
def test_what_copying_brings_along_does_not_count(guess, answer, capsys):
    assert said(capsys, guess, answer).startswith("✓")


@pytest.mark.parametrize(
    ("guess", "answer", "within"), [(ITSELF, 3, 0), (ITSELF, (1, 2), 0), (3, 3, "ten"), (..., 0.5, "ten"), (3, 3, None)]
)
def test_it_never_raises(guess, answer, within, capsys):
    text = said(capsys, guess, answer, within=within)
    assert text.startswith("… ") and "\n" not in text and ("within" in text) == (not isinstance(within, int))
