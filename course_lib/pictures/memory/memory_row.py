"""Draw tensors in memory: rows of slots, and the order in which the tensors' cells read them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import check_drawable, check_highlight, check_num_heads, token_labels
from course_lib.pictures.coordinates import Legend
from course_lib.pictures.grid import card, wrap
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import STYLE, head_color
from course_lib.pictures.table import Table
from course_lib.pictures.text import number_text
from course_lib.wording import listed

from .panel import MemoryPanel
from .view import BY_HEAD, MemoryView, views_of
from .visible_part import visible_parts

HOW_TO_READ = (
    "Above: memory, slot by slot. Below: the tensor read cell by cell, last axis fastest. "
    "A line joins each cell to its slot."
)
TICKS = range(2, 13)  # widths of the first tensor at which each of its rows begins below a written index
TICK = 4  # otherwise the interval between written indices, in slots


def _count_memories(views: Sequence[MemoryView]) -> str:
    """Count the tensors and the rows of memory in which they lie, in words."""
    if len(views) == 1:
        again = "more than once" if views[0].reads_again else "in another order"
        in_order = bool((views[0].slots.diff() > 0).all())
        return f"One row of memory, read {'from left to right' if in_order else again}"
    memories = len({view.storage for view in views})
    return f"{len(views)} tensors, {'one row' if memories == 1 else f'{memories} rows'} of memory"


@dataclass(frozen=True, eq=False)
class MemoryScene:
    """Several tensors in memory."""

    panels: Sequence[MemoryPanel]
    legend: Legend
    title: str

    @property
    def caption(self) -> str:
        return " ".join(filter(None, (self._how_lines_run(), self._whose_memory())))

    def _how_lines_run(self) -> str:
        back = any(bool((panel.view.slots.diff() < 0).any()) for panel in self.panels)
        again = any(panel.view.reads_again for panel in self.panels)
        if back and again:
            return "Where lines cross, reading jumps to and fro; where they meet, several cells read one slot."
        if again:
            return "Where lines meet, several cells read one slot."
        straight = "No two lines cross: reading goes through memory from left to right."
        return "Where lines cross, reading jumps to and fro in memory." if back else straight

    def _whose_memory(self) -> str:
        views = [panel.view for panel in self.panels]
        copies = [i for i, view in enumerate(views) if i and view.shares_with is None]
        if len(views) == 1:
            return ""
        if not copies:
            return "No element moves: there is one row of memory."
        if len(copies) > 1:
            return f"{', '.join(views[i].name for i in copies)}: each has memory of its own."
        before, copy = views[copies[0] - 1], views[copies[0]]
        text = f"{copy.name} has memory of its own"
        if copy.elements is None or before.elements is None or not copy.reads_all_in_order:
            return f"{text}."
        alike = torch.equal(copy.elements, before.elements)
        return text + (f", where the elements lie in the order in which {before.name} reads them." if alike else ".")

    def describe(self) -> str:
        parts = {panel.part_note for panel in self.panels}
        alike = len(parts) == 1 < len(self.panels)  # the same note holds for all
        sentences = [f"{self.title}." + (f" In each, {parts.pop()}." if alike and any(parts) else "")]
        sentences += [panel.describe(with_part=not alike) for panel in self.panels]
        return "\n".join([*sentences, self._journey()] if self.legend.highlight is not None else sentences)

    def _journey(self) -> str:
        """Name the owner of the highlighted element, and its slot and position in each tensor."""
        first, element = self.panels[0].view, self.legend.highlight
        value = number_text(first.memory[int(first.slots[first.cells_with(element)[0]])].item())
        names: dict[str, list[str]] = {}
        for panel in self.panels:
            names.setdefault(panel.highlight_note, []).append(panel.view.name)
        owner = self.legend.highlighted_owner
        stops = "; ".join(f"{note} in {listed(same)}" for note, same in names.items())
        return f"Follow {value}{f' ({owner})' if owner else ''}, counting from 0: {stops}."

    def draw(self) -> Canvas:
        elements = {element for panel in self.panels for element in panel.part.elements.values()}
        heads = sorted({self.legend.head(element) for element in elements} - {-1})
        size = 2 * STYLE.number_cell, STYLE.flat_cell
        # No bracket names the heads of a tensor that isn't split into heads.
        colors = [Table([[(f"head {head}", head_color(head))]], cell=size).draw() for head in heads]
        return card(self.title, [HOW_TO_READ], wrap(colors, STYLE.tight), *(panel.draw() for panel in self.panels))


def memory_row(
    *tensors: Tensor,
    names: Sequence[str] | None = None,
    words: Sequence[object] | None = None,
    num_heads: int | None = None,
    highlight: Sequence[int] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw what strides mean: each tensor's memory as a row of slots, and a line from each of its cells to its slot.

    One panel per tensor. Above are the elements in the order of memory, slot by slot; below, the tensor is read cell
    by cell, the last axis fastest. The lines run straight down for a contiguous tensor and cross for a transposed one.
    A colour belongs to an element, not to a slot: a copied element keeps its colour if the values of the first
    tensor are all different (as torch.arange makes them), else copies stay plain. What is too large is drawn in part.

    Args:
        tensors: one or more; words, num_heads and highlight apply to the first.
        names: one per tensor, such as ".transpose(1, 2)"; "tensor 0", "tensor 1", ... if None.
        words: labels of the tokens of the first tensor, its axis -2; "token 0", "token 1", ... if None.
        num_heads: number of heads in the first tensor, which set the colours: an axis of (batch, head, token,
            head_dim), or equal parts of the width of any other tensor (..., width). Plain if None.
        highlight: index of an element in the first tensor, such as (0, 3, 2), that is outlined in every tensor.
        title: the title above the drawing; the number of rows of memory if None.

    Raises:
        TypeError: If one of tensors isn't a tensor of real numbers, or num_heads isn't an integer.
        ValueError: If no tensor is given, a tensor has nothing to draw, or names, words, num_heads or highlight do not
            fit.

    Example:
        >>> queries = torch.arange(24).view(1, 6, 4)
        >>> by_head = queries.view(1, 6, 2, 2).transpose(1, 2)
        >>> print(memory_row(queries, by_head, by_head.contiguous(), num_heads=2).caption)
        Where lines cross, reading jumps to and fro in memory. tensor 2 has memory of its own, where the elements lie in
        the order in which tensor 1 reads them.
    """
    plain = [check_drawable(tensor, f"tensors[{i}]") for i, tensor in enumerate(tensors)]
    if not plain:
        raise ValueError("memory_row() got no tensor: give one or more.")
    called = [f"tensor {i}" for i in range(len(plain))] if names is None else [str(name) for name in names]
    if len(called) != len(plain):
        raise ValueError(f"names has {len(called)} entries for {len(plain)} tensors: give one per tensor.")
    first = plain[0]
    if words is not None and first.dim() < 2:
        shape = tuple(first.shape)
        raise ValueError(f"words label axis -2 of the first tensor, which has the shape {shape}: omit words.")
    labels = () if words is None else token_labels(words, first.shape[-2])
    if num_heads is not None:
        _check_heads(num_heads, tuple(first.shape))
    views, coordinates = views_of(plain, called, num_heads, named=num_heads is not None or words is not None)
    element = None
    if highlight is not None:
        cells = torch.arange(first.numel()).view(first.shape)
        cell = int(cells[check_highlight(highlight, first.shape, "the first tensor")])
        element = None if views[0].elements is None else int(views[0].elements[cell])
    legend = Legend(coordinates, labels, element)
    parts = visible_parts(views, num_heads, element)
    width = first.shape[-1] if first.dim() else 1
    tick = width if width in TICKS else TICK
    panels = [MemoryPanel(view, part, legend, tick) for view, part in zip(views, parts, strict=True)]
    return Picture.of(MemoryScene(panels, legend, title or _count_memories(views)))


def _check_heads(num_heads: int, shape: tuple[int, ...]) -> None:
    if len(shape) != BY_HEAD:
        check_num_heads(num_heads, shape[-1] if shape else 0)
    elif check_num_heads(num_heads, num_heads) != shape[1]:
        raise ValueError(
            f"num_heads={num_heads} is not the head axis of the first tensor, taken as (batch, head, token, head_dim) "
            f"of shape {shape}: give num_heads={shape[1]}, or (batch, token, width) as the first tensor."
        )
