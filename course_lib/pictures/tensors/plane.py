"""A coordinate plane with arrows or points, their labels and a legend. It computes its own pixels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from course_lib.pictures.canvas import DASHED, Canvas
from course_lib.pictures.drawing_width import drawing_width
from course_lib.pictures.style import BOLD, FAINT, LINE, SMALL, SMALL_NOTE, TEXT, TextStyle
from course_lib.pictures.text import minus

COLORS = ("#0B5CAD", "#B4540A", "#0A7D5A")  # one per group, with a contrast of 4.5 to 1 or more
WIDTH, HEIGHT = 560, 330  # the most pixels between the outermost ends
HEAD, DOT = 9.0, 4.0  # pixels: length of an arrowhead, radius of a point
THIN, THICK = 1.6, 3.0  # pixels: an arrow of a table of vectors, and that of a single vector
DISTANCES = (10, 18, 28, 40, 54)  # pixels from an end to the middle of its label's nearer side
LEADER = 20  # from this distance on, a line leads from the label to the end
TURNS = tuple(sign * math.radians(angle) for angle in range(0, 181, 20) for sign in (1, -1))
Box = tuple[float, float, float, float]  # left, top, right, bottom
Vector = Sequence[float]  # x, y


@dataclass(frozen=True)
class End:
    """One vector: where it ends, (x, y) with y upwards, its label, its group, and whether it is alone in its group."""

    x: float
    y: float
    label: str
    group: int
    alone: bool


class Plane(Canvas):
    """Two axes of the same scale with the ends of vectors, as arrows from the origin or as points.

    Labels are placed one after the other where there is room. Coordinates from data are written with three decimals
    and spaces around, so that tests can compare them as numbers.
    """

    def __init__(
        self,
        ends: Sequence[End],
        axes: Sequence[str],
        *,
        points: bool,
        around: Sequence[Vector] = (),
        narrow: bool = False,
    ) -> None:
        super().__init__()
        self.crowded = False  # a label found no free place
        xs, ys = ([0.0, *values] for values in zip(*((end.x, end.y) for end in ends), strict=True))
        across, up = max(xs) - min(xs), max(ys) - min(ys)
        side = 24 + max(SMALL.width(end.label) for end in ends)  # room for labels at the left and at the right
        width = (
            max(drawing_width() - 2 * side, drawing_width() / 3) if narrow else WIDTH
        )  # long labels need more than a phone's width
        self._scale = min(width / (across or up or 1.0), HEIGHT / (up or across or 1.0))
        self._zero = side - min(xs) * self._scale, 30 + max(ys) * self._scale
        self._taken: list[Box] = []
        self._right, self._bottom = 2 * side + across * self._scale, 64 + up * self._scale
        self._draw_axes(axes)
        corners = [self._at(x, y) for x, y in around]
        self.lines([(*start, *other) for start, other in pairwise([*corners, *corners[:1]])], width=1, dashes=DASHED)
        for end in ends:
            self._draw_point(end) if points else self._draw_arrow(end)
        for end in sorted(ends, key=lambda end: -math.hypot(end.x, end.y)):
            self._draw_label(end)
        self.crowded |= narrow and self._right > drawing_width()
        self._grow(self._right, self._bottom)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return self._zero[0] + x * self._scale, self._zero[1] - y * self._scale

    def _draw_axes(self, names: Sequence[str]) -> None:
        """Draw both axes through the origin, with a tick at each multiple of a round number."""
        (x, y), step = self._zero, _round_step(90 / self._scale)
        self.lines([(0, y, self._right, y), (x, 0, x, self._bottom)], color=FAINT, width=2)
        for number in range(-20, 21):
            right, up = self._at(number * step, number * step)
            text = minus(f"{number * step:g}")
            if number and 0 < right < self._right - 12:
                self.lines([(right, y - 3, right, y + 3)])
                self._write(right, y + 15, text, SMALL_NOTE, "middle")
            if number and 12 < up < self._bottom:
                self.lines([(x - 3, up, x + 3, up)])
                self._write(x - 7, up + 4, text, SMALL_NOTE, "end")
        self._write(self._right, y - 6, names[0], SMALL_NOTE, "end")
        self._write(x + 7, 10, names[1], SMALL_NOTE, "start")

    def _draw_arrow(self, end: End) -> None:
        (x, y), (to_x, to_y) = self._zero, self._at(end.x, end.y)
        length, width = math.hypot(to_x - x, to_y - y), THICK if end.alone else THIN
        color = COLORS[end.group]
        if length < 1:
            return self._draw_point(end)
        right, down = (to_x - x) / length, (to_y - y) / length
        head = min(HEAD + 2 * end.alone, length)
        base_x, base_y = to_x - head * right, to_y - head * down
        half = 0.45 * head
        self._parts.append(
            f'<path d="M {x:.3f} {y:.3f} L {base_x:.3f} {base_y:.3f}" stroke="{color}" stroke-width="{width}"/>'
            f'<path d="M {to_x:.3f} {to_y:.3f} L {base_x - half * down:.3f} {base_y + half * right:.3f} '
            f'L {base_x + half * down:.3f} {base_y - half * right:.3f} Z" fill="{color}"/>'
        )
        steps = max(2, int(length / 6))  # a label must not hide the arrow: small boxes along it are taken
        for step in range(1, steps + 1):
            along = length * step / steps
            at_x, at_y = x + along * right, y + along * down
            self._taken.append((at_x - 3, at_y - 3, at_x + 3, at_y + 3))

    def _draw_point(self, end: End) -> None:
        """Draw a dot, or a larger diamond for a single vector."""
        (x, y), color = self._at(end.x, end.y), COLORS[end.group]
        size = DOT * (1.8 if end.alone else 1.0)
        if end.alone:
            corners = f"M {x:.3f} {y - size:.3f} L {x + size:.3f} {y:.3f} L {x:.3f} {y + size:.3f}"
            self._parts.append(f'<path d="{corners} L {x - size:.3f} {y:.3f} Z" fill="{color}"/>')
        else:
            self._parts.append(f'<path d="M {x:.3f} {y:.3f} h 0" stroke="{color}" stroke-width="{2 * size}"')
            self._parts[-1] += ' stroke-linecap="round"/>'
        self._taken.append((x - size, y - size, x + size, y + size))

    def _draw_label(self, end: End) -> None:
        """Put a label at the nearest free place around an end, preferably further out."""
        style: TextStyle = BOLD if end.alone else SMALL
        x, y = self._at(end.x, end.y)
        outward = math.atan2(y - self._zero[1], x - self._zero[0]) if (end.x, end.y) != (0, 0) else 0.0
        width, height = style.width(end.label), style.size + 2.0
        free = (
            (distance, box)
            for distance in DISTANCES
            for turn in TURNS
            if self._is_free(box := _label_box(x, y, outward + turn, distance, width, height))
        )
        position = next(free, None)
        self.crowded |= position is None
        nearest = DISTANCES[0], _label_box(x, y, outward, DISTANCES[0], width, height)
        distance, (left, top, right, bottom) = position or nearest
        if distance >= LEADER:
            near = min(max(x, left), right), min(max(y, top), bottom)
            self.lines([(x, y, *near)], color=LINE, width=1)
        self._write((left + right) / 2, bottom - 3, end.label, style, "middle")

    def _write(self, x: float, y: float, text: str, style: TextStyle, anchor: str) -> None:
        self.text(x, y, text, style, anchor=anchor)
        self._taken.append(self.text_boxes[-1][:4])

    def _is_free(self, box: Box) -> bool:
        left, top, right, bottom = box
        if left < 0 or top < 0 or right > self._right or bottom > self._bottom:
            return False
        return not any(left < c and a < right and top < d and b < bottom for a, b, c, d in self._taken)


def convex_hull(points: Sequence[Vector]) -> list[Vector]:
    """Return the corners of the smallest convex region around some points; [] if they lie on one line."""
    order = sorted({(x, y) for x, y in points})
    halves: list[list[Vector]] = []
    for half in (order, order[::-1]):  # Andrew's monotone chain
        corners: list[Vector] = []
        for x, y in half:
            while len(corners) > 1:
                (a, b), (c, d) = corners[-2:]
                if (c - a) * (y - b) > (d - b) * (x - a):  # a turn to the left
                    break
                corners.pop()
            corners.append((x, y))
        halves.append(corners[:-1])
    hull = halves[0] + halves[1]
    return hull if len(hull) > 2 else []


def legend_of(name: str, group: int, *, points: bool) -> Canvas:
    """Return a dot or a short line in the colour of a table, with its name beside it."""
    canvas = Canvas()
    if points:
        canvas.cells([(10 - DOT, 8 - DOT)], COLORS[group], width=2 * DOT, height=2 * DOT)
    else:
        canvas.lines([(0, 8, 18, 8)], color=COLORS[group], width=3)
    canvas.text(24, TEXT.size, f"{name}, one per token")
    return canvas


def _label_box(x: float, y: float, angle: float, distance: float, width: float, height: float) -> Box:
    """Return the box of a text in a direction from (x, y), whose nearer side is `distance` away."""
    right, down = math.cos(angle), math.sin(angle)
    middle_x, middle_y = x + right * (distance + width / 2), y + down * (distance + height / 2)
    return middle_x - width / 2, middle_y - height / 2, middle_x + width / 2, middle_y + height / 2


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below a number."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
