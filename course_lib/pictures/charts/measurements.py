"""Measured numbers: types for bars and curves, their formatting, and checks."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import NamedTuple

Curve = Mapping[float, float]  # x -> y


class Bar(NamedTuple):
    """A measured number and the ends of its interval."""

    middle: float
    low: float
    high: float


class Point(NamedTuple):
    """A computation under a roof: operations per byte, and 10^9 operations per second reached and at most possible."""

    intensity: float
    reached: float
    most: float


def three_digits(number: float) -> str:
    """Write a number with about three digits: 0.0123, 1.20, 65.2, 12,300."""
    if number >= 99.95:
        return f"{float(f'{number:.3g}'):,.0f}"
    return f"{number:#.3g}"


def length(number: float) -> str:
    """Write a length or width: 512, 1k for 1024, 32k, or 0.500 for a fraction."""
    if number != round(number):
        return three_digits(number)
    return f"{number / 1024:g}k" if number and number % 1024 == 0 else f"{number:,.0f}"


def ratio_text(factor: float) -> str:
    """Write a ratio to another number: × 1.30, ÷ 65.2."""
    return f"× {three_digits(factor)}" if factor >= 1 else f"÷ {three_digits(1 / factor)}"


def check_mapping(name: str, mapping: object, what: str) -> None:
    """Raise a TypeError if an argument is not a mapping, or a ValueError if it is empty."""
    if not isinstance(mapping, Mapping):
        raise TypeError(f"{name} must be a mapping, {what}, got {type(mapping).__name__}.")
    if not mapping:
        raise ValueError(f"{name} is empty: give at least one, {what}.")


def positive(name: str, number: object) -> float:
    """Return a number as float; TypeError if it is not a number, ValueError if it is not finite or not above 0."""
    if not 0 < (value := _number(name, number)) < math.inf:
        raise ValueError(f"{name} must be finite and above 0, got {number!r}: only such numbers have ratios.")
    return value


def not_negative(name: str, number: object) -> float:
    """Return a number as float; TypeError if it is not a number, ValueError if it is not finite or below 0."""
    if not 0 <= (value := _number(name, number)) < math.inf:
        raise ValueError(f"{name} must be finite and 0 or above, got {number!r}: the axes begin at 0.")
    return value


def _number(name: str, number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{name} must be a number, got {number!r} ({type(number).__name__}).")
    return float(number)
