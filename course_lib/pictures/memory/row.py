"""Memory pictures: the row of slots in which a tensor lies, and the order in which its cells read them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..drawing import QUIET, Drawing, head_color
from ..picture import Picture
from .numbers import check_drawable, clip
from .panel import WIDTH, Look, draw_panel
from .part import Row, choose_rows
from .reading import Reading, belongings, name_axes, read_all
from .words import caption_of, follow_sentence, part_note, sentence_of, title_of

HOW_TO_READ = (
    "Above: memory, slot by slot. Below: the tensor read cell by cell, last axis fastest. "
    "A line joins each cell to its slot."
)


def memory_row(
    *tensors: Tensor,
    labels: Sequence[str] | None = None,
    words: Sequence[str] | None = None,
    heads: int | None = None,
    follow: Sequence[int] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw what strides mean: each tensor's memory as a row of slots, and a line from each of its cells to its slot.

    A panel a tensor. Above lie the numbers as they lie in memory, slot by slot; below them the tensor is read cell by
    cell, the last axis fastest. The lines run straight down for a contiguous tensor and cross for a transposed one.
    A colour belongs to a number, not to a place: in a copy it goes with the number, if the numbers of the first
    tensor are all different (as torch.arange makes them), else copies stay plain. What is too large is drawn in part.

    Args:
        tensors: one or more; the first is the one that words, heads and follow speak of.
        labels: one a tensor, such as ".transpose(1, 2)"; "tensor 0", "tensor 1", ... if None.
        words: labels of the tokens of the first tensor, its axis -2; numbers if None.
        heads: number of heads in the first tensor, which give the colours: (batch, head, token, head_dim) has them as
            an axis, of any other, (..., width), the width is divided into them. Plain if None.
        follow: index of a number in the first tensor, such as (0, 3, 2), that is outlined wherever it goes.
        title: stands above the drawing; how many rows of memory there are if None.

    Returns:
        Picture.

    Raises:
        TypeError: something that isn't a tensor of real numbers, or heads that isn't a whole number.
        ValueError: no tensor or nothing to draw in one; labels, words, heads or follow that don't fit.

    Example:
        >>> queries = torch.arange(24).view(1, 6, 4)
        >>> by_head = queries.view(1, 6, 2, 2).transpose(1, 2)
        >>> print(memory_row(queries, by_head, by_head.contiguous(), heads=2).caption)
        Where lines cross, reading jumps to and fro in memory. tensor 2 has memory of its own, where the numbers lie in
        the order in which tensor 1 reads them.
    """
    plain = [check_drawable(tensor, f"tensors[{i}]") for i, tensor in enumerate(tensors)]
    labels = _check(plain, labels, words, heads, follow)
    readings = read_all(plain, labels)
    first = readings[0]
    owners = belongings(first, heads) if heads or words is not None else {}
    for reading in readings:
        name_axes(reading, owners)
    number = None
    if follow is not None:
        cells = torch.arange(len(first.slots)).reshape(first.tensor.shape)
        number = int(first.numbers[cells[tuple(follow)]])
    rows = choose_rows(readings, heads, number)
    width = first.tensor.shape[-1] if first.tensor.dim() else 1
    look = Look(
        heads=owners["head"].tolist() if heads else None,
        words=None if words is None else [str(word) for word in words],
        tick=width if 2 <= width <= 12 else 4,
        follow=number,
    )
    title = title or title_of(readings)
    parts = [part_note(reading, row) for reading, row in zip(readings, rows, strict=True)]
    alike = len(set(parts)) == 1 < len(parts)  # then it is said once
    sentences = [f"{title}." + (f" In each, {parts[0]}." if alike and parts[0] else "")]
    sentences += [sentence_of(reading, "" if alike else part) for reading, part in zip(readings, parts, strict=True)]
    if number is not None:
        sentences.append(follow_sentence(readings, number, _owner(number, owners, look)))
    svg = _draw(readings, rows, look, title)
    return Picture(svg=svg, words="\n".join(sentences), caption=caption_of(readings))


def _check(
    tensors: Sequence[Tensor],
    labels: Sequence[str] | None,
    words: Sequence[str] | None,
    heads: int | None,
    follow: Sequence[int] | None,
) -> list[str]:
    """Refuse arguments that don't fit the tensors; returns the labels."""
    if not tensors:
        raise ValueError("memory_row() got no tensor: give one or more.")
    labels = [f"tensor {i}" for i in range(len(tensors))] if labels is None else [str(label) for label in labels]
    if len(labels) != len(tensors):
        raise ValueError(f"labels has {len(labels)} entries for {len(tensors)} tensors: give one a tensor.")
    shape = tuple(tensors[0].shape)
    if words is not None and (len(shape) < 2 or len(words) != shape[-2]):
        raise ValueError(
            f"words has {len(words)} labels for the first tensor's shape {shape}: give one a token, its axis -2."
        )
    if heads is not None:
        if not isinstance(heads, int) or isinstance(heads, bool):
            raise TypeError(f"heads must be a whole number, got {heads!r}.")
        if len(shape) == 4 and heads != shape[1]:
            raise ValueError(
                f"heads={heads} is not the head axis of the first tensor, taken as (batch, head, token, head_dim) "
                f"of shape {shape}: give heads={shape[1]}, or (batch, token, width) as the first tensor."
            )
        if not shape or heads < 1 or (len(shape) != 4 and shape[-1] % heads):
            raise ValueError(
                f"heads={heads} does not divide the width of the first tensor, its last axis, of shape {shape}: "
                "give a divisor of it."
            )
    if follow is not None:
        if not isinstance(follow, (tuple, list)) or not all(isinstance(i, int) for i in follow):
            raise TypeError(f"follow must be a tuple of whole numbers, one an axis, got {follow!r}.")
        fits = len(follow) == len(shape) and all(-size <= i < size for i, size in zip(follow, shape, strict=True))
        if not fits:
            raise ValueError(f"follow={tuple(follow)} is no index of the first tensor, {shape}: give one an axis.")
    return labels


def _owner(number: int, owners: dict[str, Tensor], look: Look) -> str:
    """Whose a number is: "work, head 1"; "" if the axes have no names."""
    owner = []
    token = int(owners["token"][number]) if owners else -1
    if token >= 0:
        owner.append(look.words[token] if look.words else f"token {token}")
    if look.head(number) >= 0:
        owner.append(f"head {look.head(number)}")
    return ", ".join(owner)


def _draw(readings: Sequence[Reading], rows: Sequence[Row], look: Look, title: str) -> str:
    picture = Drawing()
    picture.text(0, 14, clip(title, WIDTH, 16, bold=True), size=16, bold=True)
    picture.text(0, 36, HOW_TO_READ, color=QUIET)
    y = 54.0
    heads = sorted({look.head(number) for row in rows for number in row.numbers.values()} - {-1})
    for i, head in enumerate(heads):  # a legend: where a tensor isn't cut into heads, no bracket names them
        picture.lines([(i * 72, y + 10, i * 72 + 66, y + 10)], color=head_color(head), width=20)
        picture.text(i * 72 + 33, y + 14, f"head {head}", size=11, anchor="middle")
    y += 38 if heads else 0
    for reading, row in zip(readings, rows, strict=True):
        picture.place(draw_panel(reading, row, look), 0, y)
        y = picture.height + 24
    return picture.svg()
