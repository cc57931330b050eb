"""Line plots of measured numbers, on two logarithmic or two linear axes, with a limit."""

from collections.abc import Mapping
from functools import partial

from course_lib.pictures.figures import figure_svg
from course_lib.pictures.picture import Picture
from course_lib.wording import listed

from .measurements import Curve, check_mapping, length, not_negative, positive, three_digits

MOST_CURVES = 7  # as many as markers and colours can distinguish


def line_plot(
    series: Mapping[str, Curve],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    limit: Mapping[str, Curve] | None = None,
    note: str = "",
    logarithmic: bool = True,
) -> Picture:
    """Draw how numbers change, on two logarithmic axes or on two linear ones.

    On logarithmic axes growth in proportion to x is a straight line, growth with its square is a line twice as steep,
    and curves that are as far apart at both ends keep their ratio. Linear axes are for shares and losses, and begin
    at 0.

    Args:
        series: name -> {x: y}, all above 0, or on linear axes 0 or above; up to seven curves, of which some may be a
            single point.
        title: the title above the drawing.
        xlabel: what the points differ in, such as "keys in the cache".
        ylabel: what was measured, with its unit, such as "milliseconds per step".
        limit: name -> {x: y} of a bound that no measurement can pass; drawn dashed.
        note: where and when the numbers were measured, written below the drawing.
        logarithmic: whether both axes are logarithmic; if not, both are linear.

    Raises:
        ValueError: If there is no curve or too many, a curve has no points, a number is not finite or too small for
            the axes, or a limit has the name of a curve.
        TypeError: If a curve is not a mapping, or a coordinate is not a number.

    Example:
        >>> print(line_plot({"copy": {1: 2.0, 2: 4.0}}, title="Copies", xlabel="MB", ylabel="ms").description)
        Copies. Curves of ms against MB, both axes logarithmic.
        copy: 2.00 at 1, 4.00 at 2; that is 2.00 times as much for 2.00 times the x.
    """
    check_mapping("series", series, "name -> {x: y}")
    curves = {name: _checked(f"series[{name!r}]", curve, logarithmic) for name, curve in series.items()}
    bounds = (limit or {}).items()
    limits = {name: _checked(f"limit[{name!r}]", curve, logarithmic, fewest=2) for name, curve in bounds}
    if len(curves) > MOST_CURVES:
        raise ValueError(
            f"series has {len(curves)} curves: more than {MOST_CURVES} can't be told apart, so draw two pictures."
        )
    if both := sorted(curves.keys() & limits.keys()):
        raise ValueError(f"limit has the name {both[0]!r}, as a curve of series has: give it a different one.")
    from .chart_drawing import draw_lines

    description = _words(curves, limits, title, xlabel, ylabel, note, logarithmic)
    caption = "Both axes are linear and begin at 0."
    if logarithmic:
        caption = "Both axes are logarithmic: equal steps along an axis multiply by the same number."
    texts = [*curves, *limits, title, xlabel, ylabel, note]
    svg = figure_svg(partial(draw_lines, curves, limits, title, xlabel, ylabel, note, logarithmic), texts)
    dashed = " Dashed: a limit." if limits else ""
    return Picture(svg=svg, description=description, caption=caption + dashed)


def _words(
    curves: Mapping[str, Curve],
    limits: Mapping[str, Curve],
    title: str,
    xlabel: str,
    ylabel: str,
    note: str,
    logarithmic: bool,
) -> str:
    """Describe curves and limits, name -> {x: y} sorted by x, one per line."""
    in_words = _growth if logarithmic else _range
    axes = "logarithmic" if logarithmic else "linear"
    lines = [f"{title}. Curves of {ylabel} against {xlabel}, both axes {axes}."]
    lines += [in_words(name, curve) for name, curve in curves.items()]
    lines += [in_words(f"Dashed, a limit: {name}", curve) for name, curve in limits.items()]
    lines += [_last_point({**limits, **curves}, xlabel) if logarithmic else "", note]
    return "\n".join(filter(None, lines))


def _last_point(curves: Mapping[str, Curve], xlabel: str) -> str:
    """Compare all curves at the last x they have in common, as multiples of the lowest; "" if they have none."""
    common = set.intersection(*map(set, curves.values()))
    if not common or len(curves) == 1:
        return ""
    last = max(common)
    lowest, *others = sorted(curves, key=lambda name: curves[name][last])
    times = [f"{name} {three_digits(curves[name][last] / curves[lowest][last])}" for name in reversed(others)]
    return f"At {length(last)} {xlabel}, in multiples of {lowest}: {listed(times)}."


def _growth(name: str, curve: Curve) -> str:
    """Describe how a curve begins and ends, and how much it grows in between."""
    (first_x, first_y), (last_x, last_y) = (list(curve.items())[end] for end in (0, -1))
    if len(curve) == 1:
        return f"{name}: {three_digits(last_y)} at {length(last_x)}."
    ends = f"{three_digits(first_y)} at {length(first_x)}, {three_digits(last_y)} at {length(last_x)}"
    times = f"{three_digits(last_y / first_y)} times as much for {three_digits(last_x / first_x)} times the x"
    return f"{name}: {ends}; that is {times}."


def _range(name: str, curve: Curve) -> str:
    """Describe how a curve begins and ends, and its highest and lowest points."""
    at = {kind: kind(curve, key=lambda x: curve[x]) for kind in (max, min)}
    first, last, high, low = (
        f"{three_digits(curve[x])} at {length(x)}" for x in (min(curve), max(curve), at[max], at[min])
    )
    return f"{name}: {first}, {last}; highest {high}, lowest {low}." if len(curve) > 1 else f"{name}: {last}."


def _checked(name: str, curve: Curve, logarithmic: bool, fewest: int = 1) -> Curve:
    """Return a curve with its points sorted by x, if the axes can show it."""
    check_mapping(name, curve, "{x: y}")
    if len(curve) < fewest:
        raise ValueError(f"{name} has one point: a limit is a line, so give at least two.")
    check = positive if logarithmic else not_negative
    points = {check(f"{name}, an x,", x): check(f"{name}[{x!r}]", y) for x, y in curve.items()}
    return dict(sorted(points.items()))
