"""`predict(guess, answer)` compares a learner's guess with what the code computes, and gives nothing away before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

NO_GUESS = "… No guess yet: write yours in place of the dots and run this cell again."
CLOSE = 0.1  # a guessed number may be this share of the answer away


def predict(guess: Any, answer: Any | Callable[[], Any]) -> None:
    """Print whether a guess is right and what the answer is; before there is a guess, print only that.

    Args:
        guess: A number, a word, yes or no, or a shape such as (2, 6); `...` as long as there is none.
        answer: The same kind of value, computed from the lesson's tensors, or a function without arguments that
            computes it. Integers, words and shapes must be equal (upper and lower case are the same); a number with
            decimals may be 10 % away.

    Raises:
        TypeError: The guess is of another kind than the answer; the message names both.

    Example:
        >>> predict(..., 0.25)
        … No guess yet: write yours in place of the dots and run this cell again.
        >>> predict(0.26, 0.25)
        ✓ You guessed 0.26; it is 0.25.
        >>> predict("rows", "columns")
        ✗ You guessed rows; it is columns. Read on to see why.
    """
    if guess is ...:
        print(NO_GUESS)
        return
    answer = _plain(answer() if callable(answer) else answer)
    guess = _plain(guess)
    if isinstance(answer, bool) and not isinstance(guess, bool):
        guess = {"yes": True, "true": True, "no": False, "false": False}.get(str(guess).lower(), guess)
    if _kind(guess) != _kind(answer):
        raise TypeError(f"The guess {guess!r} is {_kind(guess)}; this prediction asks for {_kind(answer)}.")
    right = _equal(guess, answer)
    end = "." if right else ". Read on to see why."
    print(f"{'✓' if right else '✗'} You guessed {_shown(guess)}; it is {_shown(answer)}{end}")


def _plain(value: Any) -> Any:
    """Turn tensors of one element into numbers, and sizes and lists into tuples."""
    if isinstance(value, torch.Tensor):
        value = value.item() if value.dim() == 0 else value.tolist()
    return tuple(value) if isinstance(value, (list, torch.Size)) else value


def _kind(value: Any) -> str:
    kinds = {bool: "yes or no", int: "a number", float: "a number", str: "a word", tuple: "several numbers"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def _equal(guess: Any, answer: Any) -> bool:
    if isinstance(answer, str):
        return guess.strip().casefold() == answer.casefold()
    if isinstance(answer, float):
        return math.isclose(guess, answer, rel_tol=CLOSE, abs_tol=1e-9)
    return guess == answer


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
