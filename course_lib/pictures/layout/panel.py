"""Cut a tensor of a layout picture into labelled tables of cells, and say what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.coordinates import Coordinates, Legend
from course_lib.pictures.grid import arrow, column, label, row
from course_lib.pictures.style import ALERT, CODE, HIGHLIGHT, INK, MONO_NOTE, NAME, SMALL_BOLD, SMALL_NOTE, STYLE, TEXT
from course_lib.pictures.table import COLUMNS, ROWS, Box, Label, Table
from course_lib.pictures.text import fold_code

from .path import LayoutState

MOST_ELEMENTS = 100  # a larger tensor is drawn in part,
PART = {"token": 4, "head": 3, "column": 2}  # with this many of each
PLURALS = {"token": "tokens", "head": "heads", "column": "elements of each head"}


@dataclass(frozen=True, eq=False)
class Panel:
    """A tensor cut into tables."""

    state: LayoutState
    roles: Sequence[str]  # what each axis counts
    tables: Sequence[Table]  # the drawn ones
    left_out: str  # how much is drawn, in words; "" if everything is
    heads_in_order: bool  # in the last axis each head's elements lie side by side

    @classmethod
    def of(cls, state: LayoutState, legend: Legend) -> Panel:
        """Choose which part of a tensor is drawn, and in which tables.

        Rows and columns are the last two axes, and each index of the axes before them is a table. Only a tensor
        (..., token, head, head_dim) is drawn with its tokens as rows, so that a `view` shows as a gap within a table.
        """
        roles = legend.coordinates.roles(state.elements)
        heads_in_order = _heads_in_order(state.elements, legend)
        elements, left_out = _visible_part(state.elements, legend.coordinates)
        blocks, order, side_by_side = _as_blocks(elements, roles)
        tables: list[Table] = []
        room = STYLE.width - arrow(state.op, state.effect).width
        for number, block in enumerate(blocks[:COLUMNS, :ROWS, :COLUMNS]):
            title = _title(block, number, order, legend.coordinates) if len(blocks) > 1 else ""
            table = _table(block, title, order, legend, with_labels=not (tables and side_by_side))
            room -= STYLE.gap + table.draw().width
            if tables and room < 0:
                break
            tables.append(table)
        if len(tables) < len(blocks) or max(blocks.shape[1:]) > ROWS:
            left_out = left_out or f"{len(tables)} of {len(blocks)} tables, up to {ROWS} rows and columns"
        return cls(state, roles, tables, left_out, heads_in_order)

    @property
    def scrambled(self) -> bool:
        """Whether tokens lie along several axes, so that the shape no longer says where a token is."""
        return "scattered" in self.roles

    def draw(self, *, with_code: bool = True) -> Canvas:
        named = self.state.step is None or self.state.step.name  # otherwise the code below names it
        tables = row([table.draw() for table in self.tables])
        code = column(self._code(tables.width) if with_code else [], STYLE.between)
        return column([label(self.state.title if named else "", NAME), tables, code], STYLE.near)

    def _code(self, width: float) -> Iterator[Canvas]:
        for line in fold_code(self.state.code, int(max(width, STYLE.legend) / CODE.width("x"))):
            yield label(line, CODE)
        yield label(f"shape  {self.state.shape}", MONO_NOTE.but(color=INK))
        yield label(f"stride {self.state.stride}", MONO_NOTE)
        if self.scrambled:
            yield label("✗ no axis counts tokens now", SMALL_BOLD.but(color=HIGHLIGHT))
        if self.left_out:
            yield label(f"drawn: {self.left_out}", SMALL_NOTE)


def _heads_in_order(elements: Tensor, legend: Legend) -> bool:
    """Say whether no head begins twice along the last axis."""
    row = elements.reshape(-1, elements.shape[-1])[0].tolist() if elements.numel() and elements.dim() else []
    heads = [head for head, _ in groupby(legend.head(element) for element in row if element >= 0)]
    return len(heads) == len(set(heads))


def _visible_part(elements: Tensor, coordinates: Coordinates) -> tuple[Tensor, str]:
    """Return the drawn part of a tensor, of the first sample and with few heads if it is large, and its description."""
    kept = coordinates.sample == 0
    notes = []
    num_samples = int(coordinates.sample.max()) + 1 if len(coordinates) else 1
    if num_samples > 1:
        notes.append(f"sample 0 of {num_samples}")
    if int(kept.sum()) > MOST_ELEMENTS:
        for name, most in PART.items():
            indices = getattr(coordinates, name)
            count = int(indices.max()) + 1
            kept = kept & (indices < most)
            if count > most:
                notes.append(f"{most} of {count} {PLURALS[name]}")
    if not notes:
        return elements, ""
    drawn = kept[elements.clamp(min=0)] & (elements >= 0)
    if not drawn.any():  # a slice of something else, such as the last tokens
        return elements[tuple(slice(ROWS) for _ in elements.shape)], f"up to {ROWS} of each axis"
    for axis in range(elements.dim()):
        index = drawn.movedim(axis, 0).flatten(1).any(dim=1).nonzero().flatten()
        elements, drawn = elements.index_select(axis, index), drawn.index_select(axis, index)
    return elements, ", ".join(notes)


def _as_blocks(elements: Tensor, roles: Sequence[str]) -> tuple[Tensor, list[str], bool]:
    """Return (block, row, column), what these axes count, and whether all blocks have the same rows."""
    order = ["one"] * (2 - len(roles)) + list(roles)
    elements = elements.reshape((1,) * (2 - elements.dim()) + elements.shape)
    side_by_side = order[-3:-1] == ["token", "head"]
    if side_by_side:
        elements, order[-3:-1] = elements.transpose(-3, -2), ["head", "token"]
    return elements.reshape(-1, *elements.shape[-2:]), order, side_by_side


def _title(block: Tensor, number: int, order: Sequence[str], coordinates: Coordinates) -> str:
    """Return the head or token that all elements of a table belong to, else the index of the table."""
    heads, tokens = _of_all(block, coordinates)
    if "scattered" not in order and {"head", "mixed"} & set(order[:-2]):
        return f"head{'s' * (len(heads) > 1)} {', '.join(map(str, heads))}"
    return f"token {tokens[0]}" if "scattered" not in order and len(tokens) == 1 else f"part {number}"


def _table(block: Tensor, title: str, order: Sequence[str], legend: Legend, *, with_labels: bool) -> Table:
    elements = block.tolist()
    cells = [[("·" if element < 0 else str(element), legend.color(element)) for element in line] for line in elements]
    rows = _labels(order[-2], block, legend) if with_labels else ()
    above = [Label(text) for text in _labels(order[-1], block.T, legend)] if order[-1] == "token" else []
    below = []
    if order[-1] == "width" and legend.coordinates.num_heads > 1:
        heads = [(head, len(list(same))) for head, same in groupby(legend.head(element) for element in elements[0])]
        below = [Label(f"head {head}" if head >= 0 else "", columns, f"h{head}") for head, columns in heads]
    outlined = [Box(*index) for index in (block == legend.highlight).nonzero().tolist()]
    style = ALERT if "scattered" in order else TEXT
    return Table(cells, title, rows, above=above, below=below, outlined=outlined, row_style=style)


def _labels(role: str, block: Tensor, legend: Legend) -> list[str]:
    """Return a label for each row of a table, based on the elements in it."""
    if role in ("one", "width"):
        return [""] * len(block)
    if role == "column":
        return [str(index) for index in range(len(block))]
    return [_owner(line, legend, with_head=role != "token") for line in block]


def _owner(line: Tensor, legend: Legend, *, with_head: bool) -> str:
    """Return the token, or the token and the head, that all elements of a row belong to."""
    heads, tokens = _of_all(line, legend.coordinates)
    if len(tokens) != 1:
        return f"head {heads[0]}" if len(heads) == 1 else "several"
    label = legend.token_label(tokens[0])
    return f"{label} h{heads[0]}" if with_head and len(heads) == 1 else label


def _of_all(elements: Tensor, coordinates: Coordinates) -> tuple[list[int], list[int]]:
    known = elements[elements >= 0]
    return torch.unique(coordinates.head[known]).tolist(), torch.unique(coordinates.token[known]).tolist()
