"""The roofline of a machine: the most operations per second that its two limits allow at each arithmetic intensity."""

from collections.abc import Mapping
from functools import partial
from numbers import Real

from course_lib.pictures.figures import figure_svg
from course_lib.pictures.picture import Picture

from .measurements import Point, check_mapping, positive, three_digits

MOST_POINTS = 7  # as many as markers and colours can distinguish


def roofline(
    points: Mapping[str, float | tuple[float, float]], *, gflops: float, gb_per_s: float, title: str, note: str = ""
) -> Picture:
    """Draw what a machine can do at most, and where some computations are below it, on two logarithmic axes.

        operations per second <= min(gflops, intensity * gb_per_s)

    The two limits meet at the machine balance, gflops / gb_per_s: to its left a computation is memory-bound, to its
    right compute-bound (Williams, Waterman and Patterson, Roofline, 2009).

    Args:
        points: name -> (arithmetic intensity in operations per byte, 10^9 operations per second), or name -> intensity
            alone for a computation that is placed on the roof; seven at most.
        gflops: 10^9 operations per second of the machine.
        gb_per_s: 10^9 bytes per second between its memory and its processor.
        title: the title above the drawing.
        note: where the numbers come from, written below the drawing.

    Raises:
        ValueError: If there is no point or too many, or a number is not finite and above 0.
        TypeError: If points is not a mapping, or a value is neither a number nor two of them.

    Example:
        >>> print(roofline({"decode": 1.0}, gflops=100, gb_per_s=20, title="A machine").description)
        A machine. At most 100 billion operations per second, and 20.0 GB per second: they meet at 5.00 operations/byte.
        decode: 1.00 operations/byte, memory-bound, at most 20.0 billion operations per second.
    """
    from .roofline_drawing import draw_roofline

    check_mapping("points", points, "name -> intensity")
    if len(points) > MOST_POINTS:
        raise ValueError(f"points has {len(points)} names, but {MOST_POINTS} can be told apart: draw two pictures.")
    rate, bandwidth = positive("gflops", gflops), positive("gb_per_s", gb_per_s)
    located = {name: _point(f"points[{name!r}]", value, rate, bandwidth) for name, value in points.items()}
    balance = rate / bandwidth
    limits = f"At most {three_digits(rate)} billion operations per second, and {three_digits(bandwidth)} GB per second"
    lines = [f"{title}. {limits}: they meet at {three_digits(balance)} operations/byte."]
    lines += [_described(name, point, balance) for name, point in located.items()]
    caption = "The line is the roof. Below its slope memory is the limit, below its flat part the arithmetic."
    put = partial(draw_roofline, located, rate, balance, title, note)
    svg = figure_svg(put, [*points, title, note])
    return Picture(svg=svg, description="\n".join(filter(None, [*lines, note])), caption=caption)


def _point(where: str, value: object, rate: float, bandwidth: float) -> Point:
    if isinstance(value, Real):
        intensity = positive(where, value)
        return Point(intensity, min(rate, intensity * bandwidth), min(rate, intensity * bandwidth))
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"{where} must be an intensity or (intensity, 10^9 operations per second), got {value!r}.")
    intensity, reached = (positive(where, number) for number in value)
    return Point(intensity, reached, min(rate, intensity * bandwidth))


def _described(name: str, point: Point, balance: float) -> str:
    bound = "memory" if point.intensity < balance else "compute"
    words = f"{name}: {three_digits(point.intensity)} operations/byte, {bound}-bound, "
    if point.reached == point.most:
        return f"{words}at most {three_digits(point.most)} billion operations per second."
    below = f"{three_digits(point.most / point.reached)} times below the roof"
    return f"{words}{three_digits(point.reached)} billion operations per second, {below}."
