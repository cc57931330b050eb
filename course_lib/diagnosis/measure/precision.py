"""Recognise numbers that were rounded to a narrow dtype, whatever dtype holds them now."""

import torch
from torch import Tensor

STEPS = {torch.bfloat16: 2**-8, torch.float16: 2**-11}  # of numbers near 1
PLAIN = 16  # multiples of 1 / 16 are exact in every dtype and show no rounding
FEWEST = 4  # numbers that show it


def rounded_to(tensor: Tensor) -> torch.dtype | None:
    """Return the narrow dtype that holds all of a tensor's numbers exactly; None if none does, or any would."""
    numbers = (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).detach().double()
    fractions = numbers[numbers * PLAIN != (numbers * PLAIN).round()]
    if (not tensor.is_floating_point() and not tensor.is_complex()) or fractions.numel() < FEWEST:
        return None
    return next((dtype for dtype in STEPS if torch.equal(fractions.to(dtype).double(), fractions)), None)
