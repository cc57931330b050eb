"""Cuts a tensor of a layout picture into blocks of cells: which are drawn, what they are called, what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..drawing import STEP, text_width
from .chains import Stage
from .meaning import Meaning

MOST = 8  # rows, columns and blocks of one panel
WIDEST = 750  # pixels of one panel, so that an arrow fits before it
MOST_NUMBERS = 100  # a tensor with more of them is drawn in part:
PART = {"token": 4, "head": 3, "place": 2}  # so many of each


@dataclass(frozen=True)
class Block:
    """A table of numbers with a title: one head, or the whole tensor."""

    title: str
    numbers: Tensor  # (row, column)
    rows: list[str]
    columns: list[str]


@dataclass(frozen=True)
class Panel:
    """A tensor cut into blocks.

    Attributes:
        stage: the tensor.
        roles: what each of its axes counts.
        blocks: as far as they are drawn.
        left_out: what is drawn of how much, in words; "" if everything is.
    """

    stage: Stage
    roles: list[str]
    blocks: list[Block]
    left_out: str

    @property
    def fenced(self) -> bool:
        """Whether the blocks are columns of one table, with the rows in common."""
        return self.roles[-3:-1] == ["token", "head"]

    @property
    def scrambled(self) -> bool:
        """Whether tokens are spread over several axes: a shape that no longer says where a token is."""
        return "scattered" in self.roles


def cut_into_blocks(stage: Stage, meaning: Meaning, words: Sequence[str]) -> Panel:
    """Choose what of a tensor is drawn, and as which blocks.

    Rows and columns are the last two axes and each index of the axes before is a block; only a tensor
    (..., token, head, head_dim) is drawn with its tokens as rows, so that a `view` shows as a fence in the same table.
    """
    roles = meaning.roles(stage.numbers)
    numbers, left_out = _part_of(stage.numbers, meaning)
    while numbers.dim() < 2:
        numbers, roles = numbers[None], ["one", *roles]
    order = list(roles)
    if roles[-3:-1] == ["token", "head"]:
        numbers, order[-3:-1] = numbers.transpose(-3, -2), ["head", "token"]
    tables = numbers.reshape(-1, *numbers.shape[-2:])
    blocks, width = [], 0.0
    for number, table in enumerate(tables[:MOST]):
        table = table[:MOST, :MOST]
        title = _block_title(table, meaning, number, order, scrambled="scattered" in roles) if len(tables) > 1 else ""
        columns = _labels(order[-1], table.T, meaning, words) if order[-1] == "token" else []
        rows = _labels(order[-2], table, meaning, words)
        width += max(table.shape[1] * STEP, text_width(title, bold=True)) + max(map(text_width, rows)) + 20
        if blocks and width > WIDEST:
            break
        blocks.append(Block(title, table, rows, columns))
    if len(blocks) < len(tables) or max(tables.shape[1:]) > MOST:
        left_out = left_out or f"{len(blocks)} of {len(tables)} tables, up to {MOST} rows and columns"
    return Panel(stage, roles, blocks, left_out)


def _part_of(numbers: Tensor, meaning: Meaning) -> tuple[Tensor, str]:
    """The part of a tensor that is drawn, and which part that is: of the first sample, and of a few heads if large."""
    kept = meaning.sample == 0
    said = []
    num_samples = int(meaning.sample.max()) + 1
    if num_samples > 1:
        said.append(f"sample 0 of {num_samples}")
    if int(kept.sum()) > MOST_NUMBERS:
        for name, most in PART.items():
            coordinate = getattr(meaning, name)
            count = int(coordinate.max()) + 1
            kept = kept & (coordinate < most)
            if count > most:
                things = {"token": "tokens", "head": "heads", "place": "numbers of each head"}[name]
                said.append(f"{most} of {count} {things}")
    if not said:
        return numbers, ""
    drawn = kept[numbers.clamp(min=0)] & (numbers >= 0)
    if not drawn.any():  # a piece from elsewhere, such as the last tokens
        return numbers[tuple(slice(MOST) for _ in numbers.shape)], f"up to {MOST} of each axis"
    for axis in range(numbers.dim()):
        others = [other for other in range(numbers.dim()) if other != axis]
        index = (drawn.any(dim=others) if others else drawn).nonzero().flatten()
        numbers, drawn = numbers.index_select(axis, index), drawn.index_select(axis, index)
    return numbers, ", ".join(said)


def _block_title(table: Tensor, meaning: Meaning, number: int, order: list[str], *, scrambled: bool) -> str:
    """What a block is: the head or the token that all of its numbers belong to, else its index."""
    known = table[table >= 0]
    heads, tokens = (torch.unique(getattr(meaning, name)[known]).tolist() for name in ("head", "token"))
    if scrambled:
        return f"part {number}"
    if "head" in order[:-2] or "mixed" in order[:-2]:
        return f"head {heads[0]}" if len(heads) == 1 else f"heads {', '.join(map(str, heads))}"
    return f"token {tokens[0]}" if len(tokens) == 1 else f"part {number}"


def _labels(role: str, table: Tensor, meaning: Meaning, words: Sequence[str]) -> list[str]:
    """A label for each row of a table, from what stands in it."""
    if role in ("one", "width"):
        return [""] * len(table)
    if role == "place":
        return [str(i) for i in range(len(table))]
    return [_what(row, meaning, words, with_head=role != "token") for row in table]


def _what(row: Tensor, meaning: Meaning, words: Sequence[str], *, with_head: bool) -> str:
    """The token, or the token and the head, that all numbers of a row belong to."""
    known = row[row >= 0]
    tokens, heads = (torch.unique(getattr(meaning, name)[known]).tolist() for name in ("token", "head"))
    if len(tokens) != 1:
        return f"head {heads[0]}" if len(heads) == 1 else "several"
    word = words[tokens[0]] if tokens[0] < len(words) else f"token {tokens[0]}"
    return f"{word} h{heads[0]}" if with_head and len(heads) == 1 else word
