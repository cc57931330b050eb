"""Numbers for the checks: 64 bits, from a generator of their own, in sizes that all differ."""

from __future__ import annotations

import torch
from torch import Tensor


def numbers(*shape: int, seed: int = 0, spread: float = 1.0) -> Tensor:
    """Normal numbers in 64 bits, the same on every machine."""
    generator = torch.Generator().manual_seed(seed + 17 * len(shape) + sum(shape))
    return spread * torch.randn(*shape, generator=generator, dtype=torch.float64)


def three_roles(*sizes: tuple[int, ...], spread: float = 1.5) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Queries, keys and values of each size, all three of one shape; spread out, so that attention is neither flat
    nor all or nothing."""
    return [
        (
            numbers(*size, seed=1, spread=spread),
            numbers(*size, seed=2, spread=spread),
            numbers(*size, seed=3, spread=spread),
        )
        for size in sizes
    ]
