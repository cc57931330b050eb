"""Judge the answer to a question of `review`, however it is written."""

import ast
from fractions import Fraction
from typing import Any

from torch import Tensor

DIGITS = ".3g"  # how a fraction such as 1/3 is written; whole numbers must be exact
PRECISION = 'Give three digits, or a fraction as text, such as "2/7".'
UNREADABLE = (ValueError, SyntaxError, TypeError, ZeroDivisionError, OverflowError, MemoryError, RecursionError)


def is_right(answer: Any, given: Any) -> bool:
    """Return whether an answer is right.

    Args:
        answer: The right one: a number, a tuple of integers or a word.
        given: A learner's: a number to three digits, a list, tuple or tensor, or any of these as text, such as "1/3".
    """
    if isinstance(answer, str):
        said = {True: "yes", False: "no"}[given] if isinstance(given, bool) else given
        return isinstance(said, str) and said.strip(" .").lower() == answer
    given = _read(given)
    if isinstance(answer, tuple):
        same_length = isinstance(given, (list, tuple)) and len(given) == len(answer)
        return same_length and all(map(_is_number, answer, given))
    return _is_number(answer, given)


def is_too_rough(answer: Any, given: Any) -> bool:
    """Return whether a number would be right if fewer digits were asked for: 0.33 for 1/3."""
    given = _read(given)
    if isinstance(answer, bool) or not isinstance(answer, float) or isinstance(given, bool):
        return False
    return isinstance(given, (int, float)) and bool(given) and abs(given - answer) <= 0.05 * abs(answer)


def _read(given: Any) -> Any:
    if isinstance(given, Tensor):
        return given.tolist()
    if not isinstance(given, str):
        return given
    try:
        return float(Fraction(given.strip()))
    except UNREADABLE:
        pass
    try:
        return ast.literal_eval(given.strip())
    except UNREADABLE:
        return None


def _is_number(answer: float, given: Any) -> bool:
    if isinstance(given, bool) or not isinstance(given, (int, float, Fraction)):
        return False
    if isinstance(answer, int):
        return given == answer
    try:
        return f"{float(given):{DIGITS}}" == f"{answer:{DIGITS}}"
    except OverflowError:
        return False
