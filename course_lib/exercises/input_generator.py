"""Turn a seed into sizes and tensors, which are the same for the same seed on every machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


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
        return tuple(self._random.sample(range(low, high + 1), count))

    def size_rows(self, rows: int, count: int, low: int = 2, high: int = 9) -> list[tuple[int, ...]]:
        """Draw the sizes of several calls: all different within a row, and at each index different from row to row."""
        drawn = self.sizes(rows + count - 1, low, high)
        return [drawn[row : row + count] for row in range(rows)]

    def normal(self, *shape: int, std: float = 1.0) -> Tensor:
        """Draw a float64 tensor of normal elements with mean 0."""
        return std * torch.randn(shape, generator=self._generator, dtype=torch.float64)

    def integer(self, end: int) -> int:
        """Draw an integer from 0 to end - 1."""
        return self._random.randrange(end)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self._random.sample(items, len(items))
