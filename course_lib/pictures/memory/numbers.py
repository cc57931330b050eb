"""Numbers and names as short texts, so that they fit a cell of a memory picture."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..drawing import text_width

LARGEST = 2**22  # cells of one tensor: more than that takes seconds to look through


def check_drawable(tensor: object, name: str) -> Tensor:
    """Refuse what holds no numbers to draw.

    Args:
        tensor: what the caller gave.
        name: how to call it in the error.

    Returns:
        The tensor, detached.

    Raises:
        TypeError: it isn't a tensor, or one of complex numbers.
        ValueError: it has no numbers, no plain memory, or too many cells.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}.")
    if tensor.is_complex():
        raise TypeError(f"{name} must hold real numbers, got {tensor.dtype}: give its .real or .imag.")
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise ValueError(f"{name} has no strides to draw (layout {tensor.layout}): give a dense tensor.")
    if tensor.is_meta:
        raise ValueError(f"{name} is on the meta device and holds no numbers: give a tensor with values.")
    if tensor.numel() == 0:
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)} and no number in it: give one cell or more.")
    if tensor.numel() > LARGEST:
        raise ValueError(f"{name} has {tensor.numel():,} cells, too many to look through: give a slice of it.")
    return tensor.detach()


def number_text(number: float | int | bool) -> str:
    """A number in about five characters: 14, 0.72, -1.50, 23.4, 357, 3e-5, T.

    Args:
        number: of a tensor.

    Returns:
        Whole numbers as they are up to six characters, others with three digits or more; T and F for bools.
    """
    if isinstance(number, bool):
        return "T" if number else "F"
    if not math.isfinite(number):
        return str(number)
    if number == int(number) and len(str(int(number))) <= 6:
        return str(int(number))
    size = abs(number)
    if size < 0.005 or size >= 9999.95:
        mantissa, exponent = f"{number:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{number:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"


def clip(text: str, width: float, size: float = 11, *, bold: bool = False, mono: bool = False) -> str:
    """The text, or its beginning and an ellipsis where it is wider than some pixels.

    Args:
        text: one line.
        width: pixels there are.
        size: of the letters.
        bold, mono: how it is going to be drawn.

    Returns:
        A text that fits, "" if not even the ellipsis does.
    """
    if text_width(text, size, bold=bold, mono=mono) <= width:
        return text
    while text and text_width(text + "…", size, bold=bold, mono=mono) > width:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""
