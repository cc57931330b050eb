"""`check(name, answer)`: one answer to one exercise is judged."""

from __future__ import annotations

import difflib
from typing import Any

from .catalogue import EXERCISES
from .ledger import count_attempt, save
from .telling import told
from .tries import remember
from .verdict import NOT_WRITTEN, Verdict


def check(name: str, answer: Any) -> Verdict:
    """Judge an answer, and count it as an attempt if it is new.

    Where the same mistake comes back, more is said each time; progress is kept in the learner's workspace.

    Args:
        name: of the exercise, such as "split_heads".
        answer: the function or class that was written.

    Returns:
        Verdict, which shows in a notebook as words: passed, or what is wrong and how to see it. It is true where the
        exercise is passed.

    Raises:
        ValueError: there is no exercise of that name; the sentence lists those that are near.

    Example:
        >>> check("split_heads", lambda x, num_heads: x.view(*x.shape[:2], num_heads, -1).transpose(1, 2)).passed
        True
    """
    if name not in EXERCISES:
        near = difflib.get_close_matches(str(name), EXERCISES, n=3, cutoff=0.4)
        there = ", ".join(near or EXERCISES)
        raise ValueError(f"there is no exercise {name!r}; {'did you mean' if near else 'the exercises are'}: {there}?")
    exercise = EXERCISES[name]
    now = remember(answer, exercise.judge(answer).of(exercise.name, exercise.lesson))
    if not now.repeated and now.verdict.state != NOT_WRITTEN:
        count_attempt(name, now.verdict.passed)
    return told(exercise, now, save())
