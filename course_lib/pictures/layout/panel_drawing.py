"""Draws one tensor of a layout picture: its name, its blocks of cells, and below them code, shape and strides."""

from __future__ import annotations

from math import ceil

from ..drawing import CELL, FOLLOW, INK, PLAIN, QUIET, STEP, Drawing, head_color, text_width
from .meaning import Meaning
from .panel import Block, Panel

CODE_SIZE = 11
LEGEND = 190  # pixels that the code below a narrow panel may take
GAP = 14  # between blocks
NAMES = 38  # pixels above the cells: the tensor's name, then the blocks' titles
COLUMN_NAMES = 26  # more where columns have words


def header_of(panels: list[Panel]) -> int:
    """Pixels above the cells, the same for panels that stand side by side."""
    return NAMES + (COLUMN_NAMES if any(block.columns for panel in panels for block in panel.blocks) else 0)


def draw_panel(panel: Panel, meaning: Meaning, follow: int, header: int, *, with_code: bool = True) -> Drawing:
    """Draw a tensor.

    Args:
        panel: what to draw.
        meaning: gives each number its head, and so its colour.
        follow: the number to outline.
        header: pixels above the cells.
        with_code: whether code, shape and strides stand below.
    """
    drawing = Drawing()
    x = left = 0  # whole pixels: shorter to write down
    bottom = header
    for index, block in enumerate(panel.blocks):
        labels = [] if panel.fenced and index else block.rows
        x += max((ceil(text_width(label)) + 6 for label in labels if label), default=0)
        left = x if index == 0 else left
        for row, label in enumerate(labels):
            color = FOLLOW if panel.scrambled else INK
            drawing.text(x - 6, header + row * STEP + 17, label, anchor="end", color=color)
        drawing.text(x, NAMES - 6, block.title, size=11 if len(block.title) > 8 else 12, bold=True)
        for column, label in enumerate(block.columns):
            drawing.text(x + column * STEP + CELL / 2, header - 17 + 12 * (column % 2), label, size=11, anchor="middle")
        _draw_cells(drawing, block, x, header, meaning, follow)
        bottom = max(bottom, header + len(block.numbers) * STEP)
        if panel.roles[-1] == "width" and meaning.num_heads > 1:
            _name_heads(drawing, block, x, header + len(block.numbers) * STEP, meaning)
        x += max(block.numbers.shape[1] * STEP - 2, ceil(text_width(block.title, bold=True))) + GAP
    if panel.stage.step is None or panel.stage.step.name:  # else its code below is all the name it has
        drawing.text(left, 12, panel.stage.title, bold=True, size=13)
    if with_code:
        _write_below(drawing, panel, bottom + (16 if panel.roles[-1] == "width" and meaning.num_heads > 1 else 2))
    return drawing


def _draw_cells(drawing: Drawing, block: Block, left: float, top: float, meaning: Meaning, follow: int) -> None:
    by_color: dict[str, list[tuple[float, float]]] = {}
    numbers = []
    found = []
    for row, line in enumerate(block.numbers.tolist()):
        for column, number in enumerate(line):
            x, y = left + column * STEP, top + row * STEP
            by_color.setdefault(color_of(number, meaning), []).append((x, y))
            numbers.append((x, y, "·" if number < 0 else str(number)))
            if number == follow:
                found.append((x, y))
    for color, corners in by_color.items():
        drawing.cells(corners, color)
    drawing.numbers(numbers, size=11 if max(len(text) for _, _, text in numbers) < 4 else 9)
    for x, y in found:
        drawing.outline(x, y)


def color_of(number: int, meaning: Meaning) -> str:
    """The colour of the head that a number belongs to; of none if it came from nowhere or there is one head only."""
    return PLAIN if number < 0 or meaning.num_heads < 2 else head_color(int(meaning.head[number]))


def _name_heads(drawing: Drawing, block: Block, left: float, y: float, meaning: Meaning) -> None:
    """Say below the columns of an uncut width which head they belong to."""
    heads = [int(meaning.head[number]) for number in block.numbers[0].tolist()]
    start = 0
    for column in range(1, len(heads) + 1):
        if column == len(heads) or heads[column] != heads[start]:
            room = (column - start) * STEP
            name = f"head {heads[start]}" if text_width("head 00", 11) <= room else f"h{heads[start]}"
            drawing.text(left + start * STEP + room / 2 - 1, y + 11, name, size=11, color=QUIET, anchor="middle")
            start = column


def _write_below(drawing: Drawing, panel: Panel, y: float) -> None:
    stage = panel.stage
    letters = int(max(drawing.width, LEGEND) / (CODE_SIZE * 0.61))
    lines = [(line, True, INK) for line in fold_code(stage.code, letters)]
    lines += [(f"shape  {stage.shape}", False, INK), (f"stride {stage.stride}", False, QUIET)]
    for line, bold, color in lines:
        y += 15
        drawing.text(0, y, line, size=CODE_SIZE, mono=True, bold=bold, color=color)
    if panel.scrambled:
        y += 16
        drawing.text(0, y, "✗ no axis counts tokens now", size=11, bold=True, color=FOLLOW)
    if panel.left_out:
        drawing.text(0, y + 16, f"drawn: {panel.left_out}", size=11, color=QUIET)


def fold_code(code: str, letters: int) -> list[str]:
    """Break a line of code after commas, so that each piece has at most so many letters, if commas allow."""
    lines = [""]
    for piece in code.replace(", ", ",\n").split("\n"):
        if lines[-1] and len(lines[-1]) + 1 + len(piece) > letters:
            lines.append(piece)
        else:
            lines[-1] = f"{lines[-1]} {piece}".lstrip()
    return [line for line in lines if line]
