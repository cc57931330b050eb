"""Draw which key and value head each query head really reads, found by experiments on the modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from torch import Tensor, nn

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import column, flow, label, row
from course_lib.pictures.picture import Panels, Picture
from course_lib.pictures.style import HEADING, NOTE, PLAIN, SMALL, SMALL_ALERT, SMALL_BOLD, STYLE, head_color
from course_lib.wording import counted, listed, sentence, span, stretches

from .kv_readers import ModuleCopy, copies_of

MOST_HEADS = 12
DESCRIBED = 16  # key heads; with more, they aren't listed one by one
HOW_TO_READ = "A line: this query head reads those keys and values. Measured: they were changed, and the head noticed."


@dataclass(frozen=True)
class Sharing:
    """Which query heads of one module read which keys and values."""

    name: str
    num_heads: int
    readers: Sequence[Sequence[int]]  # for each key head, the query heads that read it
    value_readers: Sequence[Sequence[int]]
    parameters: int  # elements of k_proj and v_proj together
    kept: int  # elements per token in a cache

    @classmethod
    def of(cls, module: ModuleCopy, x: Tensor) -> Sharing:
        """Measure a module with x in float64."""
        parameters = sum(p.numel() for part in (module.k_proj, module.v_proj) for p in part.parameters())
        return cls(module.name, module.num_heads, *module.readers(x), parameters, module.kept)

    @property
    def counts(self) -> str:
        part = f" (drawn: the first {MOST_HEADS} query heads)" if self.num_heads > MOST_HEADS else ""
        kv_heads = counted(len(self.readers), "head")
        return f"{counted(self.num_heads, 'query head')}, {kv_heads} of keys and values{part}"

    @property
    def faults(self) -> list[str]:
        """List deviations from all of the course's forms."""
        every = [head for heads in self.readers for head in heads]
        repeated = sorted({head for head in every if every.count(head) > 1})
        unused = [f"k{group}" for group, heads in enumerate(self.readers) if not heads]
        faults = [f"Unused, no query head reads it: {', '.join(unused)}"] if unused else []
        faults += [f"Reading several heads of keys: query {_heads(repeated)}"] if repeated else []
        differ = self.value_readers != self.readers
        return faults + ["The values are read by other heads than the keys"] * differ

    def describe(self) -> str:
        size = f"Parameters of k_proj and v_proj: {self.parameters:,}; elements per token in a cache: {self.kept:,}"
        return ". ".join([f"{self.name}: {self.counts}", self._who_reads_whom(), *self.faults, size]) + "."

    def _who_reads_whom(self) -> str:
        if self.readers == [[head] for head in range(self.num_heads)]:
            return "Each query head reads keys and values of its own"
        clauses = [
            f"query {_heads(heads)} read{'s' * (len(heads) == 1)} k{group} v{group}"
            for group, heads in enumerate(self.readers[:DESCRIBED])
            if heads
        ]
        rest = f", and so on to k{len(self.readers) - 1}" if len(self.readers) > DESCRIBED else ""
        return sentence(listed(clauses) + rest)

    def draw(self) -> Canvas:
        parameters = label(f"parameters of k_proj and v_proj: {self.parameters:,}", SMALL)
        kept = label(f"elements in the cache for one token: {self.kept:,}", SMALL_BOLD)
        heads = row([self._draw_heads(), column([parameters, kept], STYLE.tight)], STYLE.panels)
        head = flow([(HEADING.clip(self.name, STYLE.width / 2), HEADING), (self.counts, NOTE)])
        return column([head, heads, *(label(f"✗ {fault}", SMALL_ALERT) for fault in self.faults)], STYLE.near)

    def _draw_heads(self) -> Canvas:
        """Draw the query heads, the key and value heads below them, and lines from each to what it reads."""
        canvas, box, pitch = Canvas(), STYLE.box, STYLE.box + STYLE.between
        drawn = min(self.num_heads, MOST_HEADS)
        groups = self.readers[: ceil(len(self.readers) * drawn / self.num_heads)]
        room = drawn * pitch / len(groups)
        lefts = [round(((2 * group + 1) * room - pitch) / 2, 1) for group in range(len(groups))]  # below their readers
        below = STYLE.cell + STYLE.drop
        canvas.lines(
            (head * pitch + box / 2, STYLE.cell, left + box / 2, below)
            for left, heads in zip(lefts, groups, strict=True)
            for head in heads
            if head < drawn
        )
        for head in range(drawn):
            read = [group for group, heads in enumerate(groups) if head in heads]
            canvas.cells([(head * pitch, 0)], head_color(read[0]) if len(read) == 1 else PLAIN, width=box)
        for group, (left, heads) in enumerate(zip(lefts, groups, strict=True)):
            canvas.cells([(left, below)], head_color(group) if heads else PLAIN, width=box)
            canvas.cell_texts([(left, below + STYLE.cell, "" if heads else "unused")], SMALL_ALERT, width=box)
        canvas.cell_texts([(head * pitch, 0, f"q{head}") for head in range(drawn)], width=box)
        canvas.cell_texts([(left, below, f"k{group} v{group}") for group, left in enumerate(lefts)], width=box)
        return canvas


def draw_kv_sharing(modules: Mapping[str, nn.Module], x: Tensor, *, title: str | None = None) -> Picture:
    """Draw query heads and the key and value heads that they read, for several modules.

    Both are measured: in a copy of the module the parameters of one key head are changed, and the query heads whose
    attention weights change are those that read it; for a value head the context is compared instead.
    Parameters and the elements in a cache are counted on the real tensors.

    Args:
        modules: name -> module with q_proj, k_proj, v_proj, num_heads and head_dim that takes return_weights=True.
        x: (batch, token, d_in), any input with two tokens or more.
        title: the title above the drawing.

    Raises:
        ValueError: If there is no module, or no change has an effect with x.
        TypeError: If a module isn't one of the course's forms.

    Example:
        >>> draw_kv_sharing({"shared": MultiQueryAttention(3, 4, num_heads=2)}, dream_big().batch)
        shared: 2 query heads, 1 head of keys and values. Query heads 0 and 1 read k0 v0. Parameters of k_proj and
        v_proj: 12; elements per token in a cache: 4.
        In a cache, shared keeps 4 elements per token.
    """
    panels = [Sharing.of(module, x.detach().double()) for module in copies_of(modules, x)]
    kept = listed(f"{panel.name} keeps {panel.kept:,}" for panel in panels)
    caption = f"In a cache, {kept} elements per token."
    return Picture.of(Panels(panels, title or "Who shares keys and values", HOW_TO_READ, caption))


def _heads(heads: Sequence[int]) -> str:
    """Write a list of heads: head 3, heads 0 and 2, heads 0 to 3."""
    runs = stretches(heads)
    numbers = span(*runs[0]) if len(heads) > 2 and len(runs) == 1 else listed(heads)
    return f"head{'s' * (len(heads) > 1)} {numbers}"
