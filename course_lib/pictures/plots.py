"""Plots of measured numbers: curves of growth with a limit, and bars side by side with their ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .bar_drawing import bars_figure
from .curve_drawing import lines_figure
from .fonts import style_for
from .pattern_drawing import svg_of
from .picture import Picture
from .plot_checks import Curve, checked_bars, checked_curves
from .plot_frame import counted, plain, ratio, size
from .wording import listed


def lines(
    series: Mapping[str, Curve],
    *,
    title: str,
    x: str,
    y: str,
    limit: Mapping[str, Curve] | None = None,
    note: str = "",
) -> Picture:
    """Draw how numbers grow, on two logarithmic axes.

    There, what grows in proportion to x is a straight line, what grows with its square is one twice as steep, and
    curves as far apart at both ends keep their ratio.

    Args:
        series: name -> {x: y}, all above 0; up to seven curves, of which some may be a single point.
        title: stands above the drawing.
        x: what the points differ in, such as "keys in the cache".
        y: what was measured and its unit, such as "milliseconds a step".
        limit: name -> {x: y} of what nothing can get below; drawn dashed.
        note: where and when the numbers were measured; stands below the drawing.

    Returns:
        Picture.

    Raises:
        ValueError: no curve or too many, a curve without points, a number that is not finite and above 0, a limit
            with the name of a curve.
        TypeError: a curve that is no mapping, a coordinate that is no number.

    Example:
        >>> print(lines({"copy": {1: 2.0, 2: 4.0}}, title="Copies", x="MB", y="ms").words)
        Copies. Curves of ms against MB, both axes logarithmic.
        copy: 2.00 at 1, 4.00 at 2; that is 2.00 times as much for 2.00 times the x.
    """
    curves, limits = checked_curves(series, {} if limit is None else limit)
    with style_for(*curves, *limits, title, x, y, note):
        svg = svg_of(lines_figure(curves, limits, title, x, y, note))
    words = [f"{title}. Curves of {y} against {x}, both axes logarithmic."]
    words += [_growth(name, curve) for name, curve in curves.items()]
    words += [_growth(f"Dashed, a limit: {name}", curve) for name, curve in limits.items()]
    words += _at_the_end(limits | curves, x)
    caption = "Both axes are logarithmic: equal steps along an axis multiply by the same number."
    if limits:
        caption += " Dashed: a limit."
    return Picture(svg=svg, words="\n".join([*words, *[note] * bool(note)]), caption=caption)


def bars(
    values: Mapping[str, float | Sequence[float]],
    *,
    title: str,
    unit: str,
    ratios: Mapping[str, float] | None = None,
    note: str = "",
) -> Picture:
    """Draw measured numbers side by side, each compared with the first.

    Args:
        values: name -> number above 0, or name -> (middle, low, high), such as a median between two quartiles, which
            are drawn as a thin line.
        title: stands above the drawing.
        unit: of the numbers, such as "ms".
        ratios: name -> how many times the first, where that was measured side by side; from the values if None.
        note: where and when the numbers were measured; stands below the drawing.

    Returns:
        Picture.

    Raises:
        ValueError: no value, a number that is not finite and above 0, a middle outside its spread, ratios with
            other names than the values.
        TypeError: values or ratios that are no mapping, a value that is neither a number nor three of them.

    Example:
        >>> print(bars({"slow": 6.0, "fast": (2.0, 1.5, 2.5)}, title="Two ways", unit="ms").words)
        Two ways, in ms.
        slow: 6.00, with which the others are compared.
        fast: 2.00 (1.50 to 2.50), 3.00 times less.
    """
    checked = checked_bars(values, ratios)
    with style_for(*checked, title, unit, note):
        svg = svg_of(bars_figure(checked, title, unit, note))
    words = [f"{title}, in {unit}."]
    for number, (name, bar) in enumerate(checked.items()):
        spread = f" ({plain(bar.low)} to {plain(bar.high)})" if bar.low < bar.high else ""
        compared = _compared(bar.ratio) if number else "with which the others are compared"
        words.append(f"{name}: {plain(bar.middle)}{spread}, {compared}.")
    caption = f"{ratio(1 / 3)} means a third of the first bar, {ratio(3.0)} means three times the first bar."
    if any(bar.low < bar.high for bar in checked.values()):
        caption += " The thin line is the spread."
    return Picture(svg=svg, words="\n".join([*words, *[note] * bool(note)]), caption=caption)


def _growth(name: str, curve: Curve) -> str:
    """How a curve begins, how it ends, and how much it grew in between."""
    (first_x, first_y), (last_x, last_y) = (list(curve.items())[end] for end in (0, -1))
    if len(curve) == 1:
        return f"{name}: {plain(last_y)} at {size(last_x)}."
    ends = f"{plain(first_y)} at {size(first_x)}, {plain(last_y)} at {size(last_x)}"
    return f"{name}: {ends}; that is {plain(last_y / first_y)} times as much for {plain(last_x / first_x)} times the x."


def counts(values: Mapping[str, int], *, title: str, unit: str, note: str = "") -> Picture:
    """Draw how often things were counted, as bars from zero in the given order.

    Args:
        values: name -> a whole number above 0.
        title: stands above the drawing.
        unit: what was counted, in the plural with an s, such as "students".
        note: stands below the drawing.

    Returns:
        Picture.

    Raises:
        ValueError: no value, or a number that is not above 0.
        TypeError: values that are no mapping, or not all whole numbers.

    Example:
        >>> print(counts({"no-softmax": 12}, title="Mistakes", unit="students").words)
        Mistakes.
        no-softmax: 12 students.
    """
    checked = checked_bars(values, None)
    for name, value in values.items():
        if not isinstance(value, int):
            raise TypeError(f"values[{name!r}] is {value!r}: counts are whole numbers; `bars` draws others.")
    with style_for(*checked, title, unit, note):
        svg = svg_of(bars_figure(checked, title, unit, note, counted=True))
    words = [f"{title}.", *(f"{name}: {counted(value, unit)}." for name, value in values.items()), *[note] * bool(note)]
    return Picture(svg=svg, words="\n".join(words), caption=f"Each bar is a number of {unit}.")


def _at_the_end(curves: Mapping[str, Curve], x: str) -> list[str]:
    """The last point that all curves have, as multiples of the lowest of them."""
    shared = set.intersection(*map(set, curves.values()))
    if not shared or len(curves) == 1:
        return []
    last = max(shared)
    lowest, *others = sorted(curves, key=lambda name: curves[name][last])
    times = [f"{name} {plain(curves[name][last] / curves[lowest][last])}" for name in reversed(others)]
    return [f"At {size(last)} {x}, in multiples of {lowest}: {listed(times)}."]


def _compared(factor: float) -> str:
    times = plain(max(factor, 1 / factor))
    if times == "1.00":
        return "as much"
    return f"{times} times {'less' if factor < 1 else 'as much'}"
