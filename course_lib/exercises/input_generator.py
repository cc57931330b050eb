"""Turn a seed into sizes and tensors, which are the same for the same seed on every machine."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

LONG = 16  # the least size of a long axis


class InputGenerator:
    """Generates the inputs of an exercise from random streams of its own: `check` uses seed 0, the grader a secret.

    Args:
        seed: A secret, such as `secrets.token_bytes(16)`, or an integer.

    Raises:
        TypeError: The seed is neither bytes nor an integer.

    Example:
        >>> InputGenerator(b"secret").sizes(3) == InputGenerator(b"secret").sizes(3)
        True
    """

    def __init__(self, seed: bytes | int) -> None:
        self._rows: Callable[[int, int, int, int], list[tuple[int, ...]]] = self._differing_rows
        self.has_drawn_rows = False  # since `with_equal_sizes` or `with_long_sizes` made it
        self._drawn: list[tuple[int, ...]] = []  # all sizes, in order
        self._again: Iterator[tuple[int, ...]] = iter(())  # those to be drawn once more
        if isinstance(seed, bool) or not isinstance(seed, (bytes, int)):
            raise TypeError(f"seed must be bytes or an integer, got {seed!r}: draw one with `secrets.token_bytes(16)`.")
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(self._random.getrandbits(63))

    def sizes(self, count: int, low: int = 2, high: int = 9) -> tuple[int, ...]:
        """Draw integers that all differ.

        Args:
            count: How many to draw.
            low, high: The smallest and the largest integer that may be drawn.

        Raises:
            ValueError: There are fewer than `count` integers from `low` to `high`.
        """
        if count > high - low + 1:
            raise ValueError(f"count must be at most {high - low + 1}, got {count}: from {low} to {high} are no more.")
        again = next(self._again, ())
        fits = len(again) == count and all(low <= size <= high for size in again)
        self._drawn.append(again if fits else tuple(self._random.sample(range(low, high + 1), count)))
        return self._drawn[-1]

    def size_rows(self, rows: int, count: int, low: int = 2, high: int = 9) -> list[tuple[int, ...]]:
        """Draw the sizes of several calls: all different within a row, and at each index different from row to row.

        Of what `with_equal_sizes` and `with_long_sizes` return, the sizes of a row are equal, or all of them long.
        """
        return self._rows(rows, count, low, high)

    def with_equal_sizes(self) -> InputGenerator:
        """Return a generator with the same streams that draws rows of equal sizes, so that tables are square."""
        return self._with_rows(lambda rows, count, low, high: [(size,) * count for size in self.sizes(rows, low, high)])

    def with_same_sizes(self) -> InputGenerator:
        """Return a generator with the same streams that draws the sizes that were drawn so far once more."""
        other = copy.copy(self)
        other._rows, other._again, other._drawn = other._differing_rows, iter(self._drawn), []
        return other

    def with_long_sizes(self) -> InputGenerator:
        """Return a generator with the same streams whose rows are long, from `LONG` up: row i at index i, and the last
        row at all others."""

        def long_rows(rows: int, count: int, low: int, high: int) -> list[tuple[int, ...]]:
            drawn, long = self._differing_rows(rows, count, low, high), self.sizes(count, LONG, LONG + 2 * count)
            last = rows - 1
            return [
                tuple(long[at] if at == row or at > row == last else size for at, size in enumerate(sizes))
                for row, sizes in enumerate(drawn)
            ]

        return self._with_rows(long_rows)

    def _with_rows(self, rows: Callable[[int, int, int, int], list[tuple[int, ...]]]) -> InputGenerator:
        other = copy.copy(self)  # the streams themselves are shared

        def drawn(*asked: int) -> list[tuple[int, ...]]:
            other.has_drawn_rows = True
            return rows(*asked)

        other._rows, other.has_drawn_rows = drawn, False
        return other

    def _differing_rows(self, rows: int, count: int, low: int, high: int) -> list[tuple[int, ...]]:
        drawn = self.sizes(rows + count - 1, low, high)
        return [drawn[row : row + count] for row in range(rows)]

    def normal(self, *shape: int, std: float = 1.0) -> Tensor:
        """Draw a float64 tensor of normal elements with mean 0."""
        return std * torch.randn(shape, generator=self._generator, dtype=torch.float64)

    def integer(self, end: int) -> int:
        """Draw an integer from 0 to end - 1."""
        return self._random.randrange(end)

    def integers(self, end: int, *shape: int) -> Tensor:
        """Draw a tensor of integers from 0 to end - 1."""
        return torch.randint(end, shape, generator=self._generator)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self._random.sample(items, len(items))

    def unsorted(self, items: Sequence[int]) -> list[int]:
        """Shuffle integers so that they don't rise from the first to the last."""
        found = self.shuffled(items)
        return found if found != sorted(found) else found[::-1]
