"""Draw a row of slots, the tensor's cells below it in reading order, a line for each cell, and brackets below."""

import math
from collections.abc import Sequence

import numpy as np

from course_lib.pictures.canvas import DASHED, Canvas, Line
from course_lib.pictures.coordinates import Legend
from course_lib.pictures.style import (
    FAINT,
    HIGHLIGHT,
    QUIET,
    SMALL,
    SMALL_BOLD,
    SMALL_NOTE,
    STYLE,
    WHITE,
    darken,
    head_color,
)

from .view import MemoryView
from .visible_part import UNREAD, VisiblePart


def draw_rows(view: MemoryView, part: VisiblePart, legend: Legend, tick: int) -> Canvas:
    """Draw the slots with an index above every tick-th, the cells at some distance below, and the lines between."""
    rows = Canvas()
    straight = all(part.slots[part.slot_of[cell]] == x for cell, x in part.cells.items())
    top = STYLE.line
    bottom = top + STYLE.cell + (STYLE.straight if straight else STYLE.crossing)
    _draw_indices(rows, part, legend, tick)
    _draw_lines(rows, part, legend, top + STYLE.cell, bottom)
    _draw_boxes(rows, top, [(x, slot) for slot, x in part.slots.items()], part.slot_gaps, part, legend)
    cells = [(x, part.slot_of[cell]) for cell, x in part.cells.items()]
    _draw_boxes(rows, bottom, cells, part.cell_gaps, part, legend)
    _draw_brackets(rows, bottom + STYLE.cell + STYLE.tight, view, part, legend)
    whole = Canvas()
    for name, y, height in (("slot", 0, top), ("memory", top, STYLE.cell), ("reading", bottom, STYLE.cell)):
        whole.text(STYLE.memory_label - STYLE.near, y + SMALL_NOTE.base(height), name, SMALL_NOTE, anchor="end")
    whole.place(rows, STYLE.memory_label, 0)
    return whole


def _draw_indices(rows: Canvas, part: VisiblePart, legend: Legend, tick: int) -> None:
    """Write the index above the highlighted slot, every tick-th slot and after each gap, if there is room."""
    highlighted = [slot for slot, element in part.elements.items() if element == legend.highlight]
    starts = [slot for slot in part.slots if slot % tick == 0 or slot - 1 not in part.slots]
    taken: list[tuple[float, float]] = []
    quiet, bold = [], []
    for slot in dict.fromkeys([*sorted(highlighted), *starts]):
        left = part.slots[slot] + (part.box - SMALL_BOLD.width(str(slot))) / 2 - STYLE.between
        right = left + SMALL_BOLD.width(str(slot)) + 2 * STYLE.between
        if all(left >= end or right <= begin for begin, end in taken):
            taken.append((left, right))
            (bold if slot in highlighted else quiet).append((part.slots[slot], 0.0, str(slot)))
    rows.cell_texts(quiet, SMALL_NOTE, width=part.box, height=STYLE.line)
    rows.cell_texts(bold, SMALL_BOLD.but(color=HIGHLIGHT), width=part.box, height=STYLE.line)


def _draw_lines(rows: Canvas, part: VisiblePart, legend: Legend, top: float, bottom: float) -> None:
    lines: dict[int, list[Line]] = {}
    journeys: list[Line] = []
    middle = part.box / 2
    for cell, x in part.cells.items():
        slot = part.slot_of[cell]
        element = part.elements[slot]
        line = (part.slots[slot] + middle, top + 1, x + middle, bottom - 1)
        lines.setdefault(legend.head(element), []).append(line)
        journeys += [line] if element == legend.highlight else []
    for head, ends in sorted(lines.items()):
        color = QUIET if head < 0 else darken(head_color(head))
        dashes = DASHED if head > 0 and head % 2 == 1 else ""  # distinct in grey too
        rows.lines(ends, color=color, width=STYLE.thread, dashes=dashes)
    rows.lines(journeys, color=HIGHLIGHT, width=STYLE.thick)


def _draw_boxes(
    rows: Canvas, y: float, boxes: Sequence[tuple[float, int]], gaps: Sequence[float], part: VisiblePart, legend: Legend
) -> None:
    """Draw a row of boxes (x, slot) with the elements in the slots; slots that no cell reads are hollow."""
    colors: dict[str, list[tuple[float, float]]] = {}
    plain, quiet, bold = [], [(x - part.box / 2, y, "…") for x in gaps], []
    for x, slot in boxes:
        element = part.elements[slot]
        colors.setdefault(FAINT if element == UNREAD else legend.color(element), []).append((x, y))
        texts = bold if element == legend.highlight else quiet if element == UNREAD else plain
        texts.append((x, y, part.texts[slot]))
    for color, corners in colors.items():
        rows.cells(corners, color, width=part.box)
    hollow = [(x + 1, y + 1) for x, y in colors.get(FAINT, [])]
    rows.cells(hollow, WHITE, width=part.box - STYLE.between, height=STYLE.cell - STYLE.between)
    rows.cell_texts(plain, width=part.box)
    rows.cell_texts(quiet, SMALL_NOTE, width=part.box)
    rows.cell_texts(bold, SMALL_BOLD, width=part.box)
    for x, *_ in bold:
        rows.outline(x, y, part.box)


def _draw_brackets(rows: Canvas, y: float, view: MemoryView, part: VisiblePart, legend: Legend) -> None:
    """Draw a bracket below the cells of each index along each axis, with the innermost axis on top."""
    axis_names = view.axis_names(legend.coordinates)
    for axis in reversed([axis for axis, size in enumerate(view.shape[:-1]) if size > 1]):
        block = math.prod(view.shape[axis + 1 :])
        groups: dict[int, list[float]] = {}
        for cell, x in part.cells.items():
            groups.setdefault(cell // block, []).append(x)
        names, ends = [], []
        for prefix, xs in groups.items():
            width = xs[-1] - xs[0] + part.box
            ends.append((xs[0] + STYLE.between, y, xs[0] + width - STYLE.between, y))
            name = _index_name(view.shape[: axis + 1], prefix, axis_names[axis], legend)
            names.append((xs[0] + (width - part.box) / 2, y, SMALL.clip(name, width)))
        rows.lines(ends, color=QUIET, width=1)
        rows.cell_texts(names, width=part.box)
        y += STYLE.cell


def _index_name(shape: Sequence[int], prefix: int, axis_name: tuple[str, list[int]] | None, legend: Legend) -> str:
    """Return the name of an index: a token's label, "head 1", or the index such as "[0, 1]".

    prefix counts the indices of the axes of this shape in reading order; the last of them has the name.
    """
    if axis_name is None:
        return str([int(index) for index in np.unravel_index(prefix, shape)])
    name, values = axis_name
    value = values[prefix % shape[-1]]
    return legend.token_label(value) if name == "token" else f"{name} {value}"
