"""`predict(guess, answer)` compares a learner's guess with what the code computes, and gives nothing away before."""

import math
import re
from collections.abc import Callable
from typing import Any

import torch

from .guesses import is_gap, plain, read, word
from .unquoted import accept_unquoted_words

ARTICLE = re.compile("^(an?|the) ")  # before a word, in a guess
LONGEST = 60  # characters of a guess or an answer that are printed
WANTED = {
    bool: '"yes" or "no", in quotes',
    int: "an integer",
    float: "a number",
    str: "a word, in quotes",
    tuple: "several numbers, such as (30, 40)",
}


def predict(guess: Any, answer: Any | Callable[[], Any], *, within: float = 0.0) -> None:
    """Print whether a guess is right and what the answer is; before there is a guess, print only how to give one.

    It never raises and never prints more than two lines: a guess of another kind than the answer gets a sentence.

    Args:
        guess: A number, a word, yes or no, or a shape such as (2, 6); `...` as long as there is none.
        answer: The same kind of value, computed from the lesson's tensors, or a function without arguments that
            computes it. Integers, words and shapes must be equal (upper and lower case are the same).
        within: How far a guess may be from an answer that is a number, in its own units; 0 asks for the number.

    Example:
        >>> predict(..., 0.25, within=0.01)
        … No guess yet: write yours in place of the dots and run this cell again.
        Within 0.01 counts as right.
        >>> predict(0.26, 0.25, within=0.01)
        ✓ You guessed 0.26; it is 0.25.
        >>> predict("rows", "columns")
        ✗ You guessed rows; it is columns. Read on to see why.
    """
    if not isinstance(within, (int, float)):
        print("… `within` should be a number, such as 0.01.")
        return
    try:
        _predict(guess, answer, within)
    except Exception as error:  # a list that holds itself, a class of the learner's own
        print(f"… This can't be compared ({type(error).__name__}): a guess is a number, a word in quotes or a shape.")


def _predict(guess: Any, answer: Any, within: float) -> None:
    if is_gap(guess):
        print("… No guess yet: write yours in place of the dots and run this cell again.")
        if within:
            print(f"Within {within:g} counts as right.")
        return
    try:
        answer = plain(answer() if callable(answer) else answer)
    except Exception as error:  # whatever a learner's own code above does
        print(f"… The answer could not be computed ({type(error).__name__}): run the cells above, then this one again.")
        return
    guess = read(guess, answer)
    if not _same_kind(guess, answer):
        wanted = WANTED.get(type(answer)) or _with_article(type(answer))  # never the answer itself
        print(f"… Your guess is {_shown(guess)}; this question asks for {wanted}.")
        return
    right = _equal(guess, answer, within)
    end = "." if right else ". Read on to see why."
    print(f"{'✓' if right else '✗'} You guessed {_shown(guess)}; it is {_shown(answer)}{end}")


def _same_kind(guess: Any, answer: Any) -> bool:
    """Return whether a guess is of the answer's kind; of several values, each must be of the kind of one of them."""
    if isinstance(guess, tuple) and isinstance(answer, tuple):
        return {*map(_kind, guess)} <= {*map(_kind, answer)}
    return _kind(guess) is _kind(answer)


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _equal(guess: Any, answer: Any, within: float) -> bool:
    if isinstance(answer, str):
        guess = guess.casefold()
        return word(answer).casefold() in (guess, ARTICLE.sub("", guess))
    if isinstance(answer, float) or (within and isinstance(answer, int)):
        return math.isclose(guess, answer, rel_tol=1e-6, abs_tol=max(within * (1 + 1e-6), 1e-9))
    return guess == answer


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        text = f"({', '.join(map(_shown, value[:LONGEST]))})"
    else:
        text = str(value) if isinstance(value, (int, str)) else _with_article(type(value))
    text = " ".join("".join(one if one.isprintable() else " " for one in text[: 2 * LONGEST]).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _with_article(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__name__}"


accept_unquoted_words()
