"""Tell the hints of an exercise, one more at each call."""

from __future__ import annotations

from collections import Counter
from textwrap import fill

from .checking import exercise_named

WIDTH = 88  # of a line that a laptop shows
_TOLD: Counter[str] = Counter()


def hint(name: str) -> None:
    """Print the next hint of an exercise; each says more than the one before, and after the last the first returns.

    Args:
        name: The name of the function or class that you write.

    Raises:
        ValueError: There is no exercise of that name.

    Example:
        >>> hint("training_loop")
        Hint 1 of 3: For each batch: forward, loss, old gradients to zero, backward, step.
    """
    hints = exercise_named(name).hints
    number = _TOLD[name] % len(hints)
    _TOLD[name] += 1
    print(fill(f"Hint {number + 1} of {len(hints)}: {hints[number]}", WIDTH, break_long_words=False))
