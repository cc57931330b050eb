"""A dial: two arrows in a circle and the angle between them. It computes its own pixels."""

import math
from collections.abc import Sequence

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.style import INK, LINE, QUIET, STYLE, TEXT

ROTATION = "#BFDDF2"
PITCH = 84  # pixels from one dial to the next
LABEL = 130  # pixels: width of the label of a row of dials
RADIUS, SECTOR = 30, 16  # pixels of a dial, and of the sector that shows the rotation
HAND = 0.9  # length of the longer arrow, as a multiple of the radius
SMALLEST = 0.5  # the smallest visible angle in degrees


class Dial(Canvas):
    """A circle with the arrows before and after, (x, y) with y upwards, the sector between them, and the angle below.

    The angle runs counter-clockwise, in degrees; text names it. Coordinates from data are written with three decimals
    and spaces around, so that tests can compare them as numbers.
    """

    def __init__(self, before: Sequence[float], after: Sequence[float], angle: float, text: str) -> None:
        super().__init__()
        x, y = PITCH / 2, float(RADIUS)
        if angle > SMALLEST:
            self._sector(x, y, math.atan2(before[1], before[0]), math.radians(angle))
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{RADIUS}" fill="none" stroke="{LINE}"/>')
        scale = HAND * RADIUS / max(math.hypot(*before), math.hypot(*after), 1e-30)
        dashed, solid = f'"{QUIET}" stroke-width="1.5" stroke-dasharray="4 3"', f'"{INK}" stroke-width="2.5"'
        for (right, up), stroke in ((before, dashed), (after, solid)):
            tip = f"{x + right * scale:.3f}", f"{y - up * scale:.3f}"
            self._parts.append(f'<path d="M {x:g} {y:g} L {tip[0]} {tip[1]}" stroke={stroke}/>')
        self._parts.append(f'<circle cx="{tip[0]}" cy="{tip[1]}" r="3.5" fill="{INK}"/>')
        self._grow(PITCH, 2 * RADIUS)
        self.text(x, 2 * RADIUS + STYLE.tight + TEXT.size, text, anchor="middle")

    def _sector(self, x: float, y: float, start: float, angle: float) -> None:
        """Put a sector that begins at start and extends counter-clockwise by angle, both in radians."""
        first, last = (f"{x + SECTOR * math.cos(a):.3f} {y - SECTOR * math.sin(a):.3f}" for a in (start, start + angle))
        arc = f"A {SECTOR} {SECTOR} 0 {int(angle > math.pi)} 0 {last}"
        self._parts.append(f'<path d="M {x:g} {y:g} L {first} {arc} Z" fill="{ROTATION}"/>')
