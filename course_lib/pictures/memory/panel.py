"""One panel of a memory picture: a tensor's slots, its cells below them, and the notes on them."""

from dataclasses import dataclass
from functools import cached_property

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.coordinates import Legend
from course_lib.pictures.grid import column, flow
from course_lib.pictures.style import HIGHLIGHT, MONO_NAME, MONO_NOTE, SMALL, SMALL_BOLD, SMALL_NOTE, STYLE
from course_lib.pictures.text import number_text
from course_lib.wording import counted, first_of, listed, span

from .rows import draw_rows
from .view import MemoryView
from .visible_part import VisiblePart

LISTED = 6  # runs of slots, or numbers, in the description
POSITIONS = 4  # in the description of the highlighted element


@dataclass(frozen=True, eq=False)
class MemoryPanel:
    """One tensor: what it reads, and which part of that is drawn."""

    view: MemoryView
    part: VisiblePart
    legend: Legend
    tick: int  # interval between the written indices, in slots

    @cached_property
    def memory_note(self) -> str:
        """Say whether the tensor is contiguous, whose memory it reads, and how much of it."""
        view = self.view
        note = "contiguous" if view.tensor.is_contiguous() else "not contiguous"
        note += f", same memory as {view.shares_with}" if view.shares_with else ", memory of its own"
        if view.num_read < len(view.memory):
            note += f", reads {view.num_read:,} of {counted(len(view.memory), 'slot')}"
        if view.reads_again:
            note += f", {counted(len(view.slots), 'cell')} read {counted(view.num_read, 'slot')}"
        return note

    @property
    def strides_note(self) -> str:
        """Explain the strides: "slots to the next head: 2, token: 4, element: 1"; "" if no axis has two indices."""
        steps = []
        tensor, names = self.view.tensor, self.view.axis_names(self.legend.coordinates)
        for axis, (size, stride, name) in enumerate(zip(tensor.shape, tensor.stride(), names, strict=True)):
            if size > 1:
                called = name[0] if name else "element" if axis == tensor.dim() - 1 else f"on axis {axis}"
                steps.append(f"{called}: {stride}" + ("" if stride else " (the same slot)"))
        return f"slots to the next {', '.join(steps)}" if steps else ""

    @property
    def part_note(self) -> str:
        """Say how many of the slots and cells are drawn; "" if all are."""
        of_slots, of_cells = (self.part.slots, self.view.memory, "slot"), (self.part.cells, self.view.slots, "cell")
        counts = [
            f"{len(drawn):,} of {counted(len(whole), name)}"
            for drawn, whole, name in (of_slots, of_cells)
            if len(drawn) < len(whole)
        ]
        return f"{listed(counts)} drawn" if counts else ""

    @property
    def highlight_note(self) -> str:
        """Give the slot of the highlighted element and the positions at which it is read, both counted from 0."""
        if self.legend.highlight is None:
            return ""
        if self.view.elements is None:
            return "can't be followed"
        cells = self.view.cells_with(self.legend.highlight).tolist()
        if not cells:
            return "not read"
        positions = f"position{'s' * (len(cells) > 1)} {first_of(cells, POSITIONS, len(cells))}"
        return f"slot {int(self.view.slots[cells[0]])}, read at {positions}"

    def describe(self, *, with_part: bool) -> str:
        view = self.view
        text = f"{view.name}, shape {view.shape}, stride {view.tensor.stride()}: {self.memory_note}"
        if view.shares_with is None:
            numbers = [number_text(number) for number in view.memory[:LISTED].tolist()]
            text += f", holding {first_of(numbers, LISTED, len(view.memory))}"
        text += "; read slot by slot" if view.reads_all_in_order else f"; read as slots {self._order()}"
        return "; ".join(filter(None, (text, self.strides_note, self.part_note if with_part else ""))) + "."

    def _order(self) -> str:
        """List the slots in reading order, with runs combined: "0 to 1, 4 to 5 and 10 more"."""
        slots = self.view.slots
        breaks = ((slots.diff() != 1).nonzero().flatten() + 1).tolist()
        starts, ends = [0, *breaks[: LISTED - 1]], [*breaks[:LISTED], len(slots)]
        runs = [span(int(slots[a]), int(slots[b - 1])) for a, b in zip(starts, ends, strict=False)]
        return first_of(runs, LISTED, len(breaks) + 1)

    def draw(self) -> Canvas:
        layout = f"shape {self.view.shape}, stride {self.view.tensor.stride()}"
        name = MONO_NAME.clip(self.view.name, STYLE.width / 2)
        first = flow([(name, MONO_NAME), (layout, MONO_NOTE), (self.strides_note, SMALL_NOTE)])
        followed = (self.highlight_note, SMALL_BOLD.but(color=HIGHLIGHT))
        second = flow([(self.memory_note, SMALL), (self.part_note, SMALL_NOTE), followed])
        head = column([first, second], STYLE.between)
        return column([head, draw_rows(self.view, self.part, self.legend, self.tick)], STYLE.tight)
