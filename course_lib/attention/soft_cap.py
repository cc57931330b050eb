"""Soft caps: scores that are bent so that none exceeds a limit."""

from __future__ import annotations

from numbers import Real

import torch
from torch import Tensor


def soft_cap(scores: Tensor, cap: float) -> Tensor:
    """Bend scores into (-cap, cap): small ones hardly change, large ones approach the cap.

        capped = cap * tanh(scores / cap)

    It comes after the scale and before the mask: of a score of -inf it would make -cap, which is no longer hidden.

    Args:
        scores: any shape, scaled and not yet masked.
        cap: above 0; 50.0 in Gemma 2. An infinite cap changes nothing.

    Returns:
        The shape and dtype of scores.

    Raises:
        ValueError: a cap that is not above 0.
        TypeError: a cap that is not a number.

    Source: Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024, section 2.

    Example:
        >>> soft_cap(torch.tensor([0.5, 500.0]), 50.0)
        tensor([ 0.5000, 50.0000])
    """
    check_cap(cap)
    return scores if cap == torch.inf else cap * torch.tanh(scores / cap)


def check_cap(cap: float, name: str = "cap") -> None:
    """Refuse a cap that is not a number above 0."""
    if isinstance(cap, bool) or not isinstance(cap, Real):
        raise TypeError(f"{name} must be a number, got {cap!r} ({type(cap).__name__}).")
    if not cap > 0:
        raise ValueError(f"{name} must be above 0, got {cap}: Gemma 2 uses 50.0, and infinity caps nothing.")
