"""What plots refuse, each in one sentence, and what they draw then: sorted curves and bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import NamedTuple

Curve = Mapping[float, float]
MOST_CURVES = 7  # that shapes and colours tell apart


class Bar(NamedTuple):
    """A measured number.

    Attributes:
        middle, low, high: what was measured, and the ends of its spread.
        ratio: how many times the first bar.
    """

    middle: float
    low: float
    high: float
    ratio: float = 1.0


def checked_curves(
    series: Mapping[str, Curve], limit: Mapping[str, Curve]
) -> tuple[dict[str, dict[float, float]], dict[str, dict[float, float]]]:
    """Refuse what can't be drawn on logarithmic axes; return curves and limits with their points sorted by x."""
    curves, limits = _curves("series", series), _curves("limit", limit)
    if not curves:
        raise ValueError("series has no curve: give at least one, name -> {x: y}.")
    if len(curves) > MOST_CURVES:
        raise ValueError(
            f"series has {len(curves)} curves: more than {MOST_CURVES} can't be told apart, so draw two pictures."
        )
    if both := sorted(curves.keys() & limits.keys()):
        raise ValueError(f"limit has the name {both[0]!r}, as a curve of series has: give it another one.")
    return curves, limits


def checked_bars(values: Mapping[str, float | Sequence[float]], ratios: Mapping[str, float] | None) -> dict[str, Bar]:
    """Refuse what can't be drawn as bars from zero; return name -> Bar."""
    if not isinstance(values, Mapping):
        raise TypeError(f"values must be a mapping, name -> number, got {type(values).__name__}.")
    if not values:
        raise ValueError("values is empty: give at least one, name -> number.")
    found = {name: _bar(f"values[{name!r}]", value) for name, value in values.items()}
    if ratios is None:
        first = next(iter(found.values())).middle
        return {name: bar._replace(ratio=bar.middle / first) for name, bar in found.items()}
    if not isinstance(ratios, Mapping):
        raise TypeError(f"ratios must be a mapping, name -> number, got {type(ratios).__name__}.")
    if ratios.keys() != values.keys():
        raise ValueError(f"ratios are for {list(ratios)}, values for {list(values)}: give one ratio for each value.")
    return {name: bar._replace(ratio=_positive(f"ratios[{name!r}]", ratios[name])) for name, bar in found.items()}


def _curves(argument: str, curves: Mapping[str, Curve]) -> dict[str, dict[float, float]]:
    if not isinstance(curves, Mapping):
        raise TypeError(f"{argument} must be a mapping, name -> {{x: y}}, got {type(curves).__name__}.")
    checked = {}
    for name, curve in curves.items():
        where = f"{argument}[{name!r}]"
        if not isinstance(curve, Mapping):
            raise TypeError(f"{where} must be a mapping, {{x: y}}, got {type(curve).__name__}.")
        if not curve:
            raise ValueError(f"{where} has no point: give at least one, {{x: y}}.")
        if argument == "limit" and len(curve) < 2:
            raise ValueError(f"{where} has one point: a limit is a line, so give at least two.")
        points = {_positive(f"{where}, an x,", x): _positive(f"{where}[{x!r}]", y) for x, y in curve.items()}
        checked[name] = dict(sorted(points.items()))
    return checked


def _bar(where: str, value: float | Sequence[float]) -> Bar:
    if isinstance(value, Real):
        return Bar(*[_positive(where, value)] * 3)
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 3:
        raise TypeError(f"{where} must be a number or (middle, low, high), got {value!r}.")
    bar = Bar(*(_positive(where, number) for number in value))
    if not bar.low <= bar.middle <= bar.high:
        raise ValueError(f"{where} must be (middle, low, high) in which low <= middle <= high, got {value!r}.")
    return bar


def _positive(where: str, number: float) -> float:
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{where} must be a number, got {number!r} ({type(number).__name__}).")
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{where} must be finite and above 0, got {number!r}: only such numbers have ratios.")
    return float(number)
