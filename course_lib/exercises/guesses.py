"""Read what a learner writes as a guess: `0.8`, "0.8", "4/5", `np.float32(0.8)` and `[0.8]` are all the same."""

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from torch import Tensor

MOST = 60  # elements of a tensor that are read, and digits of an integer
AROUND = " \t\r\n\"'`“”‘’„«».,;:!?"  # of a word
UNSEEN = str.maketrans("", "", "\u200b\u200c\u200d\u2060\ufeff")  # what copying brings along and nobody sees
YES_OR_NO = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


def is_gap(guess: Any) -> bool:
    """Return whether a guess still has a gap: the dots themselves, or among its numbers."""
    if isinstance(guess, (list, tuple)):
        return any(map(is_gap, guess[:MOST]))
    return guess is ... or (isinstance(guess, str) and guess.strip() in ("...", "…"))


def plain(value: Any) -> Any:
    """Turn tensors, arrays, fractions and lists into numbers and tuples, and what no float can hold into infinity."""
    with suppress(Exception):  # a tensor without elements, or whatever a class of the learner's own does
        if isinstance(value, (Tensor, np.ndarray, np.generic)) and np.prod(value.shape) <= MOST:
            value = value.tolist()
        if isinstance(value, (Fraction, Decimal)):
            value = int(value) if value == int(value) else float(value)
        if isinstance(value, int) and abs(value) > 10**MOST:
            return float("inf") if value > 0 else float("-inf")
    if type(value) is str:
        return value.translate(UNSEEN)
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value


def read(guess: Any, answer: Any) -> Any:
    """Read a guess as the kind of value that the answer is; what can't be read so is returned as it is.

    Args:
        guess: What a learner wrote.
        answer: The answer, as `plain` returns it.
    """
    guess = plain(guess)
    if isinstance(answer, tuple):
        if isinstance(guess, str):
            parts = guess.strip(AROUND).removeprefix("torch.Size").strip("([])").split(",")
            guess = tuple(part for part in parts if part.strip()) if len(parts) > 1 or len(answer) == 1 else guess
        elif not isinstance(guess, tuple) and len(answer) == 1:
            guess = (guess,)
        kinds = answer if isinstance(guess, tuple) and len(guess) == len(answer) else answer[:1] * MOST
        return tuple(map(read, guess, kinds)) if isinstance(guess, tuple) and len(guess) <= MOST else guess
    while isinstance(guess, tuple) and len(guess) == 1:
        guess = guess[0]
    if isinstance(answer, str):
        return word(getattr(guess, "__name__", guess) if callable(guess) else guess)
    if not isinstance(guess, str):
        return guess
    if isinstance(answer, bool):
        return YES_OR_NO.get(word(guess).casefold(), guess)
    return _number(guess) if isinstance(answer, (int, float)) else guess


def word(text: Any) -> Any:
    """Return a text without quotes and punctuation around it, if anything else is in it."""
    return (text.strip(AROUND) or text.strip(AROUND.replace(".", "")) or text) if isinstance(text, str) else text


def _number(text: str) -> Any:
    above, *below = text.strip(AROUND.replace(".", "")).split("/")
    with suppress(ValueError, ZeroDivisionError):
        number = float(above)
        for one in below:
            number /= float(one)
        return int(number) if number.is_integer() else number
    return text
