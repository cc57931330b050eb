"""One device of the picture of heads spread over devices: its blocks of each matrix, and the number that it gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from .drawing import CELL, LINE, PLAIN, QUIET, Drawing, head_color
from .readers import num_kv_heads
from .wording import listed

ROWS, COLUMN = 70, 30  # pixels: how wide a head's rows are drawn, and a head's columns
PLACES = {"q_proj": 82, "k_proj": 164, "v_proj": 246}  # pixels from the left
OUT = 416


def draw_device(
    name: str,
    held: dict[str, tuple[list[int], int]],
    whole: nn.Module,
    shape: tuple[int, ...],
    number: str,
    place: str,
) -> Drawing:
    """One device: x, its blocks of each matrix, and the number that it gives."""
    drawing = Drawing()
    heads, groups = whole.num_heads, num_kv_heads(whole)
    step, top = CELL + 2, 44
    high = heads * step - 2
    drawing.text(0, 13, name, size=14, bold=True)
    drawing.cells([(0, top)], PLAIN, width=56, height=high)
    drawing.text(28, top + high / 2 + 4, "all of x", size=11, anchor="middle")
    drawing.text(28, top + high + 15, str(shape), size=11, color=QUIET, anchor="middle")
    for projection, left in PLACES.items():
        found, width = held[projection]
        count = heads if projection == "q_proj" else groups
        colors = [head_color(block * groups // count) for block in range(count)]
        drawing.text(left + ROWS / 2, top - 8, projection, size=11, anchor="middle")
        drawing.text(left + ROWS / 2, top + high + 15, f"rows {spans(found, width)}", size=11, anchor="middle")
        put(drawing, left, top, (ROWS, heads // count * step - 2), (0, heads // count * step), found, colors)
    mine = held["q_proj"][0]
    drawing.arrow(326, top + CELL, 80, f"head{'s' * (len(mine) > 1)} {spans(mine, 1)}", "attend")
    found, width = held["out_proj"]
    colors = [head_color(block * groups // heads) for block in range(heads)]
    side = heads * (COLUMN + 2) - 2
    drawing.text(OUT + side / 2, top - 8, "out_proj", size=11, anchor="middle")
    drawing.text(OUT + side / 2, top + 2 * CELL + 15, f"columns {spans(found, width)}", size=11, anchor="middle")
    put(drawing, OUT, top, (COLUMN, 2 * CELL), (COLUMN + 2, 0), found, colors)
    drawing.arrow(OUT + side + 10, top + CELL, 40)
    left = OUT + side + 58
    drawing.text(left + 48, top - 8, "its output", size=11, anchor="middle")
    drawing.cells([(left, top)], PLAIN, width=96, height=2 * CELL)
    drawing.text(left + 48, top + CELL + 4, number.replace("-", "−"), bold=True, anchor="middle")
    drawing.text(left + 96, top + 2 * CELL + 15, place, size=11, color=QUIET, anchor="end")
    return drawing


def put(
    drawing: Drawing,
    x: float,
    y: float,
    size: tuple[float, float],
    step: tuple[float, float],
    found: Sequence[int],
    colors: Sequence[str],
) -> None:
    """A matrix, head after head: filled and numbered where the device holds it, a dashed outline where another does."""
    (width, height), (right, down) = size, step
    for block in found:
        left, top = x + block * right, y + block * down
        drawing.cells([(left, top)], colors[block], width=width, height=height)
        drawing.text(left + width / 2, top + height / 2 + 4, str(block), size=11, anchor="middle")
    for first, last in runs(block for block in range(len(colors)) if block not in found):
        left, top, more = x + first * right + 1, y + first * down + 1, last - first
        drawing.outline(left, top, more * right + width - 2, more * down + height - 2, color=LINE, dashed=True)


def runs(numbers: Iterable[int]) -> list[list[int]]:
    """The first and the last of neighbouring numbers."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def spans(heads: Sequence[int], width: int) -> str:
    """The rows or columns of heads, neighbours joined: 0–3, or 0–1 and 4–5."""
    ends = [(first * width, (last + 1) * width - 1) for first, last in runs(heads)]
    return listed([f"{first}–{last}" if last > first else f"{first}" for first, last in ends])
