"""A table of a tensor's numbers as a drawing: the block that the product pictures are put together from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

import torch
from torch import Tensor

from .drawing import PLAIN, QUIET, Drawing, text_width

WIDE, HIGH = 34, 24  # pixels of a cell that holds two decimals
ROWS, COLUMNS = 8, 8  # more are left out, and said


def two_digits(number: float) -> str:
    """A number with two decimals, or fewer where it is large, in at most five letters: 0.31, -12.5, 1e+06."""
    if abs(number) < 9.995:
        return f"{number:.2f}".replace("-0.00", "0.00")
    return f"{number:.1f}" if abs(number) < 99.95 else f"{number:.0f}" if abs(number) < 9999.5 else f"{number:.0e}"


def block(
    table: Tensor,
    title: str,
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    color: Callable[[int, int], str] | None = None,
    text: Callable[[int, int], str] | None = None,
    note: str = "",
    most: int = COLUMNS,
) -> tuple[Drawing, float]:
    """Draw a table.

    Args:
        table: (row, column) of real numbers.
        title: stands above it.
        rows, columns: labels; none if empty.
        color: fill of a cell by its place; one light grey for all if None.
        text: what a cell says; its number if None.
        note: a quiet line below; the shape if empty.
        most: columns that are drawn at most.

    Returns:
        The drawing, whose cells begin 38 pixels below its top, and where they begin from the left.
    """
    drawing = Drawing()
    height, width = min(table.shape[0], ROWS), min(table.shape[1], most)
    left = max((ceil(text_width(label)) + 6 for label in rows), default=0)
    numbers = table.tolist()
    by_color: dict[str, list[tuple[float, float]]] = {}
    for row in range(height):
        for column in range(width):
            fill = PLAIN if color is None else color(row, column)
            by_color.setdefault(fill, []).append((left + column * (WIDE + 2), 38 + row * (HIGH + 2)))
    for fill, corners in by_color.items():
        drawing.cells(corners, fill, width=WIDE, height=HIGH)
    for row in range(height):
        if rows:
            drawing.text(left - 6, 55 + row * (HIGH + 2), rows[row], anchor="end")
        for column in range(width):
            words = two_digits(numbers[row][column]) if text is None else text(row, column)
            x = left + column * (WIDE + 2) + WIDE / 2
            drawing.text(x, 54 + row * (HIGH + 2), words, size=11, anchor="middle")
    start = 0
    for column in range(1, min(len(columns), width) + 1):  # neighbours with the same label share it
        if column == min(len(columns), width) or columns[column] != columns[start]:
            room = (column - start) * (WIDE + 2)
            size = 11 if text_width(columns[start], 11) <= room else 9
            middle = left + start * (WIDE + 2) + room / 2 - 1
            drawing.text(middle, 33, columns[start], size=size, anchor="middle", color=QUIET)
            start = column
    drawing.text(left, 13, title, bold=True)
    below = note or str(tuple(table.shape))
    if table.shape[0] > height or table.shape[1] > width:
        below += f", {height} by {width} drawn"
    drawing.text(left, 38 + height * (HIGH + 2) + 13, below, size=11, color=QUIET)
    return drawing, left


def beside(parts: Sequence[Drawing | str], height: float) -> Drawing:
    """Put drawings and signs such as "=" side by side; height is where the signs stand."""
    row = Drawing()
    for part in parts:
        x = ceil(row.width) + 14 if row.width else 0
        if isinstance(part, str):
            row.text(x, height, part, size=16, bold=True, color=QUIET)
        else:
            row.place(part, x, 0)
    return row


def plain_numbers(tensor: Tensor, name: str, axes: str) -> Tensor:
    """A tensor's first sample as real numbers on the CPU; refuse what has none.

    Args:
        tensor: with as many axes as axes names, or one more, a batch, before them.
        name: of the argument, for the error.
        axes: such as "token width".
    """
    wanted = axes.split()
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}.")
    if tensor.is_meta or tensor.numel() == 0:
        raise ValueError(f"{name} holds no numbers (shape {tuple(tensor.shape)}): there is nothing to draw.")
    if tensor.dim() not in (len(wanted), len(wanted) + 1):
        raise ValueError(
            f"{name} must be ({', '.join(wanted)}), with a batch before it or not, got {tuple(tensor.shape)}."
        )
    tensor = tensor.detach().cpu().to(torch.float64)
    return tensor[0] if tensor.dim() > len(wanted) else tensor
