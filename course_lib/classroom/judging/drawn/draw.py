"""A secret seed becomes sizes and numbers: the same for the same seed, on every machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class Draw:
    """Draws sizes and numbers from streams of its own; PyTorch's and Python's global ones stay as they are.

    Args:
        seed: secret, in a class such as `secrets.token_bytes(16)`, or a whole number.

    Raises:
        TypeError: a seed that is neither bytes nor a whole number.

    Example:
        >>> Draw(b"secret").sizes(3) == Draw(b"secret").sizes(3)
        True
    """

    def __init__(self, seed: bytes | int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (bytes, int)):
            raise TypeError(
                f"seed must be bytes or a whole number, got {seed!r}: draw one with `secrets.token_bytes(16)`."
            )
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(self._random.getrandbits(63))

    def sizes(self, count: int, low: int = 2, high: int = 9) -> tuple[int, ...]:
        """Draw whole numbers that all differ.

        Args:
            count: how many.
            low, high: the smallest and the largest that may come.

        Raises:
            ValueError: there are not that many from low to high.
        """
        if count > high - low + 1:
            raise ValueError(f"count must be at most {high - low + 1}, got {count}: from {low} to {high} are no more.")
        return tuple(self._random.sample(range(low, high + 1), count))

    def size_rows(self, rows: int, count: int, low: int = 2, high: int = 9) -> list[tuple[int, ...]]:
        """Sizes for several calls: all different in each row, and at each place different from row to row."""
        drawn = self.sizes(rows + count - 1, low, high)
        return [drawn[row : row + count] for row in range(rows)]

    def numbers(self, *shape: int, spread: float = 1.0) -> Tensor:
        """Normal numbers in 64 bits."""
        return spread * torch.randn(*shape, generator=self._generator, dtype=torch.float64)

    def below(self, end: int) -> int:
        """A whole number from 0 to end - 1."""
        return self._random.randrange(end)

    def pick(self, choices: Sequence[T]) -> T:
        """One of several."""
        return self._random.choice(choices)

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """All of them in drawn order."""
        return self._random.sample(things, len(things))
