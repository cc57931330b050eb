"""Draw the memories of a machine as a pyramid: the nearer to the processor, the smaller and the faster."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.drawing_width import drawing_width
from course_lib.pictures.grid import card
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import BOLD, HEADS, SMALL_NOTE, STYLE, TEXT

UNITS = ("bytes", "KB", "MB", "GB", "TB")
HEIGHT = 2 * STYLE.cell  # of a level


@dataclass(frozen=True)
class Levels:
    """Memories, the nearest first: name -> (bytes, bytes per second)."""

    levels: Mapping[str, tuple[float, float]]
    title: str
    caption: str = "The nearer a memory is to the processor, the smaller and the faster it is."

    def describe(self) -> str:
        lines = [f"{self.title}."]
        for name, size, speed in self._rows:
            lines.append(f"{name}: {amount(size)}, {amount(speed)}/s, {self._slower(speed)}.")
        return "\n".join(lines)

    def draw(self) -> Canvas:
        drawing = Canvas()
        widest, rows = drawing_width() - STYLE.label, self._rows
        for number, (name, size, speed) in enumerate(rows):
            width = widest * (number + 1) / len(rows)
            left, top = (widest - width) / 2, number * (HEIGHT + STYLE.between)
            drawing.cells([(left, top)], HEADS[number % len(HEADS)], width=width, height=HEIGHT)
            drawing.text(widest / 2, top + TEXT.base(STYLE.cell), name, BOLD, anchor="middle")
            drawing.text(
                widest / 2, top + STYLE.cell + TEXT.base(STYLE.cell) - STYLE.tight, amount(size), TEXT, anchor="middle"
            )
            beside = widest + STYLE.near
            drawing.text(beside, top + TEXT.base(STYLE.cell), f"{amount(speed)}/s", BOLD)
            drawing.text(
                beside, top + STYLE.cell + TEXT.base(STYLE.cell) - STYLE.tight, self._slower(speed), SMALL_NOTE
            )
        return card(self.title, [], drawing)

    @property
    def _rows(self) -> list[tuple[str, float, float]]:
        return [(name, size, speed) for name, (size, speed) in self.levels.items()]

    def _slower(self, speed: float) -> str:
        """How long this level takes for what the first brings in a second."""
        first = next(iter(self.levels.values()))[1]
        seconds = first / speed
        return f"takes {seconds / 60:.0f} minutes" if seconds >= 120 else f"takes {seconds:.3g} s"


def amount(number: float) -> str:
    """A number of bytes in the largest unit of which there is at least one."""
    power = 0
    while number >= 1000 and power + 1 < len(UNITS):
        number, power = number / 1000, power + 1
    return f"{number:.3g} {UNITS[power]}"


def draw_memories(levels: Mapping[str, tuple[float, float]], *, title: str) -> Picture:
    """Draw the memories of a machine, and how long each takes for what the first brings in a second.

    Args:
        levels: name -> (bytes, bytes per second), the nearest to the processor first; two to four.
        title: The title above the drawing.

    Raises:
        ValueError: If there are too few or too many levels, or a number is not finite and above 0.

    Example:
        >>> print(draw_memories({"cache": (1e6, 4e11), "RAM": (8e9, 4e10)}, title="A computer").description)
        A computer.
        cache: 1 MB, 400 GB/s, takes 1 s.
        RAM: 8 GB, 40 GB/s, takes 10 s.
    """
    if not 2 <= len(levels) <= 4:
        raise ValueError(f"levels has {len(levels)} memories: give two to four, the nearest to the processor first.")
    for name, numbers in levels.items():
        if len(numbers) != 2 or not all(isfinite(number) and number > 0 for number in numbers):
            raise ValueError(f"levels[{name!r}] is {numbers!r}: give its bytes and its bytes per second, above 0.")
    return Picture.of(Levels(dict(levels), title))
