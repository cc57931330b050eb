"""Tables of cells with labels on their sides, from which pictures of tensors, heads and caches are built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from math import ceil

from .canvas import Canvas
from .columns import Box, Label, boxes_between, cuts_of, labels_between
from .drawing_width import drawing_width, is_narrow
from .style import BOLD, SMALL, SMALL_BOLD, SMALL_NOTE, STYLE, TEXT, TINY, TextStyle

ROWS, COLUMNS = 8, 8  # drawn at most; the rest is left out and mentioned
LONG = 3  # characters; longer numbers are written smaller


def labels_of(texts: Iterable[str]) -> tuple[Label, ...]:
    """Return one label per run of columns with the same text."""
    return tuple(Label(text, len(list(same))) for text, same in groupby(texts))


@dataclass(frozen=True)
class Table:
    """Cells in rows and columns, each with a text and a colour."""

    cells: Sequence[Sequence[tuple[str, str]]]
    title: str = ""
    rows: Sequence[str] = ()  # labels to the left of the rows
    marks: Sequence[tuple[str, str]] = ()  # texts to the right of the rows, and their colours
    above: Sequence[Label] = ()
    below: Sequence[Label] = ()
    notes: Sequence[str] = ()
    outlined: Sequence[Box] = ()
    cell: tuple[int, int] = (STYLE.cell, STYLE.cell)  # width and height in pixels
    row_style: TextStyle = TEXT

    @property
    def _pitch(self) -> tuple[int, int]:
        return self.cell[0] + STYLE.between, self.cell[1] + STYLE.between

    @cached_property
    def _left(self) -> int:
        widths = [self.row_style.width(self.row_style.clip(label, STYLE.label)) for label in self.rows]
        return ceil(max(widths, default=0)) + STYLE.near if any(widths) else 0

    def draw(self) -> Canvas:
        most = (drawing_width() - self._left) // self._pitch[0]
        if not is_narrow() or len(self.cells[0]) <= most:
            return self._draw()
        whole = Canvas()
        for part in self.divided(most):
            drawn, y = part._draw(), whole.height + STYLE.near if whole.height else 0
            whole.place(drawn, 0, y)
            if not y:
                whole.top, whole.middle = drawn.top, drawn.middle
        return whole

    def divided(self, most: int) -> list[Table]:
        """Return tables of at most `most` columns each, to be drawn below each other."""
        count = len(self.cells[0])
        return [
            replace(
                self,
                cells=[cells[start:stop] for cells in self.cells],
                title=self.title if start == 0 else "",
                above=list(labels_between(self.above, start, stop)),
                below=list(labels_between(self.below, start, stop)),
                outlined=list(boxes_between(self.outlined, start, stop)),
                marks=self.marks if stop == count else (),
                notes=self.notes if stop == count else (),
            )
            for start, stop in pairwise(cuts_of(self.below or self.above, count, max(1, most)))
        ]

    def _draw(self) -> Canvas:
        canvas, (_, pitch) = Canvas(), self._pitch
        style = BOLD if BOLD.width(self.title) <= len(self.cells[0]) * self._pitch[0] else SMALL_BOLD
        canvas.text(self._left, style.size, self.title, style)
        top = style.size + STYLE.tight if self.title else 0
        top += self._draw_labels(canvas, self.above, top)
        bottom = top + len(self.cells) * pitch - STYLE.between
        canvas.top, canvas.middle = top, (top + bottom) / 2
        self._draw_cells(canvas)
        self._draw_row_texts(canvas)
        bottom += self._draw_labels(canvas, self.below, bottom)
        for note in self.notes:
            bottom += SMALL_NOTE.size + STYLE.tight
            canvas.text(self._left, bottom, note, SMALL_NOTE)
        return canvas

    def _draw_cells(self, canvas: Canvas) -> None:
        (width, height), (across, down) = self.cell, self._pitch
        by_color: dict[str, list[tuple[float, float]]] = {}
        texts = []
        for row, cells in enumerate(self.cells):
            for column, (text, fill) in enumerate(cells):
                x, y = self._left + column * across, canvas.top + row * down
                by_color.setdefault(fill, []).append((x, y))
                texts.append((x, y, text))
        for fill, places in by_color.items():
            canvas.cells(places, fill, width=width, height=height)
        long = width <= STYLE.cell and any(len(text) > LONG for *_, text in texts)
        canvas.cell_texts(texts, TINY if long else SMALL, width=width, height=height)
        for row, column, rows, columns in self.outlined:
            x, y = self._left + column * across, canvas.top + row * down
            canvas.outline(x, y, columns * across - STYLE.between, rows * down - STYLE.between)

    def _draw_row_texts(self, canvas: Canvas) -> None:
        style, (across, down) = self.row_style, self._pitch
        base, right = canvas.top + style.base(self.cell[1]), self._left + len(self.cells[0]) * across + STYLE.tight
        for row, label in enumerate(self.rows):
            text = style.clip(label, STYLE.label)
            canvas.text(self._left - STYLE.tight, base + row * down, text, style, anchor="end")
        for row, (mark, color) in enumerate(self.marks):
            canvas.text(right, base + row * down, mark, SMALL.but(color=color))

    def _draw_labels(self, canvas: Canvas, labels: Sequence[Label], y: float) -> float:
        """Write column labels on one line, or alternately on two if they need more room; return their height."""
        positioned = list(self._placed(labels))
        if not positioned:
            return 0
        fitting = [
            style
            for style in (SMALL_NOTE if labels is self.below else SMALL, TINY)
            if all(style.width(label.short or label.text) <= free for _, label, free in positioned)
        ]
        lines = 1 if fitting or labels is self.below else 2
        height, style = SMALL.size + STYLE.between, fitting[0] if fitting else SMALL
        if labels is self.below:
            y += STYLE.tight
            named = [(middle, free / 2 - 1) for middle, label, free in positioned if label.text]
            canvas.lines([(middle - half, y, middle + half, y) for middle, half in named], width=1)
        for number, (middle, label, free) in enumerate(positioned):
            text = label.text if not label.short or style.width(label.text) <= free else label.short
            down = height * (1 + number % lines)
            canvas.text(middle, y + down, style.clip(text, lines * free), style, anchor="middle")
        return height * lines + STYLE.tight * (2 if labels is self.below else 1)

    def _placed(self, labels: Sequence[Label]) -> Iterator[tuple[float, Label, float]]:
        """Yield the middle of each label and the width available to it."""
        start, pitch = 0, self._pitch[0]
        for label in labels:
            free = label.columns * pitch
            yield self._left + start * pitch + (free - STYLE.between) / 2, label, free - STYLE.between
            start += label.columns
