"""A checked (query, key) table of a picture: its values, hidden cells and labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from course_lib.pictures.checks import token_labels
from course_lib.pictures.style import SHADES

MOST_WITH_VALUES = 8  # tables of up to 8 x 8 cells show their values


@dataclass(frozen=True)
class Scale:
    """How values become colours and texts."""

    low: float  # the value at the lower end of the colours
    high: float
    colors: str | tuple[str, ...]  # name of a matplotlib colour map, or colours equally far apart
    write: Callable[[float], str]  # the text of a value
    label: str = ""  # of the colour bar, which is left out without a label
    ticks: tuple[float, ...] = ()  # of the colour bar
    write_tick: Callable[[float], str] = str


WEIGHTS = Scale(0.0, 1.0, SHADES, "{:.2f}".format, "weight", (0.0, 0.5, 1.0))


@dataclass(frozen=True, eq=False)
class Pattern:
    """A table of queries (rows) and keys (columns)."""

    values: np.ndarray  # (query, key)
    hidden: np.ndarray  # bool, (query, key); these cells are hatched
    queries: Sequence[str]  # labels
    keys: Sequence[str]
    title: str = ""
    scale: Scale = WEIGHTS
    label_rows: bool = True  # False if the table to the left has the same queries

    @property
    def with_values(self) -> bool:
        """Whether the table is small enough for texts in its cells."""
        return max(self.values.shape) <= MOST_WITH_VALUES


def check_weights(weights: Tensor, axes: str, name: str = "weights") -> np.ndarray:
    """Return weights as (head, query, key) on the CPU; axes is "query key" or "head query key", name is for errors.

    Axes of size 1 may come before the named ones. Raise a TypeError if it isn't a floating-point tensor, or a
    ValueError if it has a different shape or elements outside 0 to 1.
    """
    if not isinstance(weights, Tensor) or not weights.is_floating_point():
        kind = weights.dtype if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(f"{name} must be a floating-point tensor, got {kind}.")
    wanted, shape = axes.split(), tuple(weights.shape)
    if len(shape) < len(wanted) or any(size != 1 for size in shape[: -len(wanted)]) or 0 in shape:
        axes = ", ".join(wanted)
        raise ValueError(f"{name} must be ({axes}) with at least one cell, got the shape {shape}: pick one sample.")
    patterns = weights.detach().to("cpu", torch.float64).reshape(-1, *shape[-2:])
    if not (patterns.min() >= -1e-6 and patterns.max() <= 1 + 1e-3):
        raise ValueError(
            f"{name} must lie between 0 and 1, got {patterns.min():.4g} to {patterns.max():.4g}: draw them after "
            "the softmax, in eval mode."
        )
    return patterns.numpy()


def check_keep(keep: Tensor | None, patterns: np.ndarray) -> np.ndarray:
    """Return the hidden cells, (head, query, key): those that keep hides, or without it those of exactly 0.

    Raise a TypeError if keep isn't a tensor, or a ValueError if it has a different dtype or shape.
    """
    if keep is None:
        return patterns == 0.0
    if not isinstance(keep, Tensor):
        raise TypeError(f"keep must be a bool tensor with True = may attend, got {type(keep).__name__}.")
    if keep.dtype != torch.bool or keep.dim() not in (2, 3) or tuple(keep.shape[-2:]) != patterns.shape[-2:]:
        raise ValueError(
            f"keep must be bool of shape (query, key) = {patterns.shape[-2:]}, got {keep.dtype} {tuple(keep.shape)}."
        )
    return np.broadcast_to(~keep.cpu().numpy(), patterns.shape)


def check_labels(
    words: Sequence[object] | None, key_words: Sequence[object] | None, shape: Sequence[int]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the labels of the queries and of the keys, or their indices; ValueError if their number is wrong."""
    query_len, key_len = shape[-2:]
    if key_words is None and query_len == key_len:
        key_words = words
    return token_labels(words, query_len, default="{}"), token_labels(key_words, key_len, "key_words", default="{}")
