"""One panel of a memory picture: a row of slots, the tensor's cells below it in reading order, a line for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..drawing import CELL, FAINT, FOLLOW, INK, PLAIN, QUIET, Drawing, head_color, text_width
from .groups import draw_groups
from .numbers import clip
from .part import ROW, UNREAD, Row
from .reading import Reading
from .words import follow_note, memory_note, part_note, steps_note

LEFT = 54  # pixels for what the rows are called
WIDTH = LEFT + ROW
STRAIGHT, CROSSING = 26, 84  # pixels from slots to cells


@dataclass(frozen=True, eq=False)
class Look:
    """What the panels of one picture have in common.

    Attributes:
        heads: head of each number, -1 where it has none; None draws all plain.
        words: labels of the tokens, or None.
        tick: every how many slots the slot's index is written above it.
        follow: the number that is outlined, or None.
    """

    heads: Sequence[int] | None
    words: Sequence[str] | None
    tick: int
    follow: int | None

    def head(self, number: int) -> int:
        """The head that a number belongs to, -1 if it isn't known."""
        return -1 if self.heads is None or number < 0 else self.heads[number]


def draw_panel(reading: Reading, row: Row, look: Look) -> Drawing:
    """Draw one tensor: label, shape and stride, notes, slots, lines, cells, and where in its axes the cells are.

    Args:
        reading: what the tensor reads.
        row: what of it is drawn.
        look: shared by all panels.

    Returns:
        Drawing.
    """
    panel = Drawing()
    layout = f"shape {tuple(reading.tensor.shape)}, stride {reading.tensor.stride()}"
    y = _flow(
        panel,
        13,
        (clip(reading.label, WIDTH / 2, 13, bold=True, mono=True), {"size": 13, "bold": True, "mono": True}),
        (layout, {"color": QUIET, "mono": True}),
        (steps_note(reading), {"color": QUIET}),
    )
    journey = "" if look.follow is None else follow_note(reading, look.follow)
    y = _flow(
        panel,
        y + 18,
        (memory_note(reading), {}),
        (part_note(reading, row), {"color": QUIET}),
        (journey, {"color": FOLLOW, "bold": True}),
    )
    top = y + 22
    straight = all(row.slots[row.slot_of[cell]] == x for cell, x in row.cells.items())
    distance = CELL + (STRAIGHT if straight else CROSSING)
    for name, y in (("slot", top - 4), ("memory", top + 16), ("reading", top + distance + 16)):
        panel.text(LEFT - 8, y, name, size=11, anchor="end", color=QUIET)
    panel.place(_rows(reading, row, look, distance), LEFT, top)
    return panel


def _flow(drawing: Drawing, y: float, *texts: tuple[str, dict]) -> float:
    """Put texts beside each other, on a new line where they don't fit; returns the base line of the last."""
    x = 0.0
    for text, look in texts:
        shape = {"size": 11, "bold": False, "mono": False, **look}
        color = shape.pop("color", INK)
        text = clip(text, WIDTH, **shape)
        if x and x + text_width(text, **shape) > WIDTH:
            x, y = 0.0, y + 16
        drawing.text(x, y, text, color=color, **shape)
        x += text_width(text, **shape) + 14
    return y


def dark(color: str) -> str:
    """A head's colour, dark enough for a thin line on white."""
    return "#" + "".join(f"{int(int(color[i : i + 2], 16) * 0.55):02X}" for i in (1, 3, 5))


def _rows(reading: Reading, row: Row, look: Look, distance: float) -> Drawing:
    """The slots at y 0, the cells at some distance below, and what is above, between and below them."""
    rows = Drawing()
    followed = {slot for slot, number in row.numbers.items() if number == look.follow}
    _indices(rows, row, look.tick, followed)
    lines: dict[int, list[tuple[float, float, float, float]]] = {}
    journeys = []
    for cell, x in row.cells.items():
        slot = row.slot_of[cell]
        line = (row.slots[slot] + row.box / 2, CELL + 1, x + row.box / 2, distance - 1)
        lines.setdefault(look.head(row.numbers[slot]), []).append(line)
        journeys += [line] if slot in followed else []
    for head, ends in sorted(lines.items()):
        color = QUIET if head < 0 else dark(head_color(head))
        rows.lines(ends, color=color, width=1.4, dashed=head > 0 and head % 2 == 1)  # told apart without colour too
    rows.lines(journeys, color=FOLLOW, width=2.5)
    _boxes(rows, 0, [(x, slot) for slot, x in row.slots.items()], row.slot_dots, row, look)
    _boxes(rows, distance, [(x, row.slot_of[cell]) for cell, x in row.cells.items()], row.cell_dots, row, look)
    draw_groups(rows, distance + CELL + 5, reading, row, look.words)
    return rows


def _indices(rows: Drawing, row: Row, tick: int, followed: set[int]) -> None:
    """Write the index above the followed slot, every few slots and after each gap, as long as there is room."""
    taken: list[tuple[float, float]] = []
    plain = []
    starts = [slot for slot in row.slots if slot % tick == 0 or slot - 1 not in row.slots]
    for slot in dict.fromkeys([*sorted(followed), *starts]):
        middle, half = row.slots[slot] + row.box / 2, text_width(str(slot), 11, bold=True) / 2 + 2
        if all(middle - half >= right or middle + half <= left for left, right in taken):
            taken.append((middle - half, middle + half))
            if slot in followed:
                rows.text(middle, -4, str(slot), size=11, anchor="middle", color=FOLLOW, bold=True)
            else:
                plain.append((middle - CELL / 2, -20, str(slot)))
    rows.numbers(plain, color=QUIET)


def _boxes(
    rows: Drawing, y: float, boxes: Sequence[tuple[float, int]], dots: Sequence[float], row: Row, look: Look
) -> None:
    """Put a row of boxes (x, slot) with the numbers that lie in the slots; those that no cell reads are hollow."""
    colors: dict[str, list[tuple[float, float]]] = {}
    plain, quiet = [], [(x - CELL / 2, y, "…") for x in dots]
    followed = []
    for x, slot in boxes:
        number = row.numbers[slot]
        head = look.head(number)
        color = FAINT if number == UNREAD else PLAIN if head < 0 else head_color(head)
        colors.setdefault(color, []).append((x, y))
        if number == look.follow:
            followed.append((x, row.texts[slot]))
        else:
            (quiet if number == UNREAD else plain).append((x + (row.box - CELL) / 2, y, row.texts[slot]))
    for color, corners in colors.items():
        rows.cells(corners, color, width=row.box)
    unread = [(x + 1, y + 1) for x, y in colors.get(FAINT, [])]
    rows.cells(unread, "#FFF", width=row.box - 2, height=CELL - 2)
    rows.numbers(plain)
    rows.numbers(quiet, color=QUIET)
    for x, text in followed:
        rows.outline(x, y, row.box)
        rows.text(x + row.box / 2, y + 16, text, size=11, bold=True, anchor="middle")
