"""Tell the hints of an exercise."""

from textwrap import fill

from .checking import exercise_named

WIDTH = 88  # of a line that a laptop shows


def hint(name: str, number: int = 1) -> None:
    """Print a hint of an exercise; each says more than the one before.

    Args:
        name: The name of the function or class that you write.
        number: 1 for the first, 2 for the next, and so on.

    Raises:
        ValueError: There is no exercise of that name, or it has no hint of that number.

    Example:
        >>> hint("training_loop")
        Hint 1 of 3: For each batch: forward, loss, old gradients to zero, backward, step.
    """
    hints = exercise_named(name).hints
    if number not in range(1, len(hints) + 1):
        raise ValueError(
            f"number is {number!r}: {name} has {len(hints)} hints, so give a number from 1 to {len(hints)}"
        )
    print(fill(f"Hint {number} of {len(hints)}: {hints[number - 1]}", WIDTH, break_long_words=False))
