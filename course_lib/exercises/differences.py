"""How a result differs from what was expected, said plainly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CLOSE = 1e-9  # in float64; two right ways to add up differ by 1e-15
CLOSE_32 = 1e-5


def difference(result: Any, expected: Any, axes: str = "") -> tuple[str, str | None] | None:
    """Say how a result differs.

    Args:
        result: what the learner's code gave.
        expected: a tensor, a number, a text, or a tuple of these.
        axes: names of the expected tensor's axes, such as "batch head token head_dim", or of a tuple's parts.

    Returns:
        None where they are equal; else one sentence, and the id of the mistake where it has one.
    """
    if result is None:
        return "Your function gives back None: is a `return` missing?", "returns-none"
    if isinstance(expected, Tensor):
        return _of_tensors(result, expected, axes)
    if isinstance(expected, tuple):
        return _of_tuples(result, expected, axes)
    if isinstance(expected, str):
        given = result.strip().lower().replace("_", "-") if isinstance(result, str) else result
        return None if given == expected else (f"Your answer is {result!r}.", None)
    if isinstance(result, Tensor) and result.numel() == 1:
        result = result.item()
    if not isinstance(result, (bool, int, float)):
        return f"Your function gives back a {type(result).__name__}; it should be a number such as {expected}.", None
    if not abs(result - expected) <= CLOSE * max(1.0, abs(expected)):  # a nan is near to nothing
        return f"Your result is {_short(result)}; it should be {_short(expected)}.", None
    return None


def _of_tuples(result: Any, expected: tuple, names: str) -> tuple[str, str | None] | None:
    if isinstance(result, Tensor) or not hasattr(result, "__len__") or not hasattr(result, "__getitem__"):
        return f"Your function gives back a {type(result).__name__}; it should be {len(expected)} things.", None
    if len(result) != len(expected):
        return f"Your function gives back {len(result)} things; it should be {len(expected)}.", None
    if all(isinstance(one, (int, str)) for one in expected):
        same = [str(one) for one in result] == [str(one) for one in expected]
        return None if same else (f"Your result is {tuple(result)}; it should be {expected}.", None)
    for at, (one, other) in enumerate(zip(result, expected, strict=True)):
        if found := difference(one, other):
            what = f"`{names.split()[at]}`" if names else f"number {at} of what you give back"
            return f"Of the parts, {what} is off. {found[0]}", found[1]
    return None


def _of_tensors(result: Any, expected: Tensor, axes: str) -> tuple[str, str | None] | None:
    if not isinstance(result, Tensor):
        return f"Your function gives back a {type(result).__name__}; it should be a tensor.", None
    result = result.detach().cpu()
    if result.shape != expected.shape:
        names = f" = ({', '.join(axes.split())})" if axes else ""
        return f"Your result has the shape {tuple(result.shape)}; it should be {tuple(expected.shape)}{names}.", None
    if result.is_floating_point() != expected.is_floating_point() or result.is_complex():
        return f"Your result is {_dtype(result)}; it should be {_dtype(expected)}.", None
    if not expected.is_floating_point() and result.dtype != expected.dtype:
        return f"Your result is {_dtype(result)}; it should be {_dtype(expected)}.", None
    if equal(result, expected):
        return None
    off = ~close(result, expected)
    place = tuple(off.nonzero()[0].tolist())
    yours, right = _short(result[place].item()), _short(expected[place].item())
    share = f"{int(off.sum())} of {off.numel()} numbers differ"
    nan = " A nan comes from 0 / 0 or from infinity minus infinity." if yours == "nan" else ""
    return f"At {list(place)} your result is {yours}; it should be {right} ({share}).{nan}", None


def close(result: Tensor, expected: Tensor) -> Tensor:
    """Where two tensors of one shape hold equal numbers, as far as the coarser of them can tell."""
    if not expected.is_floating_point():
        return result == expected
    both_fine = result.dtype == expected.dtype == torch.float64
    tolerance = CLOSE if both_fine else CLOSE_32
    return torch.isclose(result.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def equal(result: Any, expected: Any) -> bool:
    """Whether a result is what was expected: type, shape, kind of number and numbers."""
    if isinstance(result, Tensor) and isinstance(expected, Tensor):
        result = result.detach().cpu()
        one_kind = result.dtype == expected.dtype or (result.is_floating_point() and expected.is_floating_point())
        return one_kind and result.shape == expected.shape and bool(close(result, expected).all())
    return not isinstance(result, Tensor) and difference(result, expected) is None


def coarser(result: Any, expected: Any) -> str | None:
    """A remark on a result that is right and in fewer bits than its input."""
    if not isinstance(result, Tensor) or not isinstance(expected, Tensor) or result.dtype == expected.dtype:
        return None
    return (
        f"The check came with {_dtype(expected)} and got {_dtype(result)} back: "
        "`torch.zeros(..., dtype=x.dtype)` keeps the dtype that came in."
    )


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _short(number: float) -> str:
    return f"{number:.4f}" if isinstance(number, float) else str(number)
