"""Checks of arguments that several pictures take: tensors, token labels, heads, the element to highlight."""

from collections.abc import Sequence

import torch
from torch import Tensor

LARGEST = 2**22  # elements of one tensor; reading more than that takes seconds


def check_drawable(tensor: object, name: str) -> Tensor:
    """Return a tensor, detached; raise a TypeError or ValueError that names it if it has no elements to draw."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}.")
    if tensor.is_complex():
        raise TypeError(f"{name} must hold real numbers, got {tensor.dtype}: give its .real or .imag.")
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise ValueError(f"{name} has no strides to draw (layout {tensor.layout}): give a dense tensor.")
    if tensor.is_meta:
        raise ValueError(f"{name} is on the meta device and holds no numbers: give a tensor with values.")
    if tensor.numel() == 0:
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)} and no element in it: give one or more.")
    if tensor.numel() > LARGEST:
        raise ValueError(f"{name} has {tensor.numel():,} elements, too many to look through: give a slice of it.")
    return tensor.detach()


def first_sample(tensor: object, name: str, axes: str) -> Tensor:
    """Return a tensor's first sample as float64 on the CPU, with axes such as "token width" after any batch.

    Raise a TypeError or ValueError if it has other axes, or if check_drawable refuses it.
    """
    tensor, wanted = check_drawable(tensor, name), axes.split()
    if tensor.dim() not in (len(wanted), len(wanted) + 1):
        axes = ", ".join(wanted)
        raise ValueError(f"{name} must be ({axes}), with a batch before it or not, got {tuple(tensor.shape)}.")
    tensor = tensor.cpu().to(torch.float64)
    return tensor[0] if tensor.dim() > len(wanted) else tensor


def token_labels(
    words: Sequence[object] | None, num_tokens: int, name: str = "words", default: str = "token {}"
) -> tuple[str, ...]:
    """Return one label per token: "token 0", "token 1", ... if words is None; ValueError if the lengths differ."""
    if words is None:
        return tuple(default.format(token) for token in range(num_tokens))
    if len(words) != num_tokens:
        raise ValueError(f"{name} has {len(words)} labels for {num_tokens} tokens: give one per token.")
    return tuple(str(word) for word in words)


def check_num_heads(num_heads: object, width: int) -> int:
    """Return the number of heads; TypeError if it is not an integer, ValueError if it doesn't divide the width."""
    if not isinstance(num_heads, int) or isinstance(num_heads, bool):
        raise TypeError(f"num_heads must be an integer, got {num_heads!r}.")
    if num_heads < 1 or width < 1 or width % num_heads:
        raise ValueError(f"num_heads={num_heads} does not divide the width {width}: give a divisor of it.")
    return num_heads


def check_highlight(highlight: object, shape: Sequence[int], name: str) -> tuple[int, ...]:
    """Return the index of the element to outline, without negative integers.

    Raise a TypeError or ValueError if it is not an index into a tensor of that shape, which the error calls `name`.
    """
    if not isinstance(highlight, (tuple, list)) or not all(isinstance(index, int) for index in highlight):
        raise TypeError(f"highlight must be a tuple of integers, one per axis of {name}, got {highlight!r}.")
    shape = tuple(shape)
    inside = (-size <= index < size for index, size in zip(highlight, shape, strict=False))
    if len(highlight) != len(shape) or not all(inside):
        raise ValueError(f"highlight={tuple(highlight)} is not an index of {name}, {shape}: give one integer per axis.")
    return tuple(index % size for index, size in zip(highlight, shape, strict=True))
