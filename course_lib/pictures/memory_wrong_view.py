"""The central mistake as a picture: cutting heads out of (batch, token, width) with a view alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .drawing import CELL, FOLLOW, QUIET, STEP, Drawing, head_color, text_width
from .memory_numbers import check_drawable, clip, number_text
from .memory_panel import WIDTH
from .picture import Picture

MOST_HEADS, MOST_TOKENS, MOST_NUMBERS = 4, 8, 6  # that are drawn; of more heads the first two are
LISTED = 6  # tokens read out before "and so on"
COLUMN = 20  # pixels between two heads


def wrong_view(
    tensor: Tensor, num_heads: int, words: Sequence[str] | None = None, *, title: str | None = None
) -> Picture:
    """Draw what .view(batch, head, token, head_dim) makes of the heads, beside the right way to cut them.

    Both ways are run on the indices of the numbers, so each row is known for what it really holds: its colour is the
    head it truly belongs to, and a row that isn't what its place says is marked.

    Args:
        tensor: (batch, token, width), such as torch.arange(24).view(1, 6, 4); its first sample is drawn.
        num_heads: number of heads, two or more, a divisor of the width.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        title: stands above the drawing.

    Returns:
        Picture.

    Raises:
        TypeError: no tensor of real numbers, or num_heads isn't a whole number.
        ValueError: another shape, one token, one head, a width that the heads don't divide, or labels that don't fit.

    Example:
        >>> print(wrong_view(torch.arange(24).view(1, 6, 4), 2).caption)
        Each head must hold its own slice of every token. The view alone cuts memory into 2 stretches instead: 10 of 12
        rows are not what their place says.
    """
    tensor = check_drawable(tensor, "tensor")
    names = _check(tensor, num_heads, words)
    batch, num_tokens, width = tensor.shape
    head_dim = width // num_heads
    index = torch.arange(tensor.numel()).view(tensor.shape)
    right = index.view(batch, num_tokens, num_heads, head_dim).transpose(1, 2)[0]  # (head, token, head_dim)
    wrong = index.view(batch, num_heads, num_tokens, head_dim)[0]
    cuts = (
        Cut(f".view({batch}, {num_heads}, {num_tokens}, {head_dim})", wrong, right, names),
        Cut(f".view({batch}, {num_tokens}, {num_heads}, {head_dim}).transpose(1, 2)", right, right, names),
    )
    title = title or "A view alone scrambles the heads"
    part = _part(batch, num_tokens, num_heads, head_dim)
    bad, rows = cuts[0].num_wrong, num_heads * num_tokens
    return Picture(
        svg=_draw(cuts, tensor[0].flatten().cpu(), title, part),
        words="\n".join([f"{title}.{part and f' Drawn: {part}.'}", *(cut.in_words() for cut in cuts)]),
        caption="Each head must hold its own slice of every token. The view alone cuts memory into "
        f"{num_heads} stretches instead: {bad} of {rows} rows are not what their place says.",
    )


@dataclass(frozen=True, eq=False)
class Cut:
    """One way to cut the first sample into heads.

    Attributes:
        code: how it is written.
        index: (head, token, head_dim), which number of the sample lies in each place.
        wanted: the same as it should be.
        names: labels of the tokens.
    """

    code: str
    index: Tensor
    wanted: Tensor
    names: Sequence[str]

    @property
    def holds(self) -> Tensor:
        """(head, token), whether the row holds what its place says."""
        return (self.index == self.wanted).all(dim=-1)

    @property
    def num_wrong(self) -> int:
        return int((~self.holds).sum())

    def really(self, head: int, token: int) -> tuple[int, int]:
        """The head and token that the row of a place truly belongs to: where its first number should be."""
        found = (self.wanted[..., 0] == self.index[head, token, 0]).nonzero()[0]
        return int(found[0]), int(found[1])

    def in_words(self) -> str:
        """How many rows are wrong, one of them, and which tokens a head never sees."""
        num_heads, num_tokens, _ = self.index.shape
        if not self.num_wrong:
            return f"Right, {self.code}: all {num_heads * num_tokens} rows hold what their place says."
        head, token = (~self.holds).nonzero()[0].tolist()
        true_head, true_token = self.really(head, token)
        text = (
            f"Wrong, {self.code}: {self.num_wrong} of {num_heads * num_tokens} rows do not hold what their place says. "
            f"Head {head}, {self.names[token]} is really head {true_head}, {self.names[true_token]}."
        )
        for head in range(min(num_heads, MOST_HEADS)):
            seen = {self.really(head, token)[1] for token in range(num_tokens)}
            unseen = [name for token, name in enumerate(self.names) if token not in seen]
            if unseen:
                more = " and so on" if len(unseen) > LISTED else ""
                text += f" Head {head} never sees {', '.join(unseen[:LISTED])}{more}."
        return text


def _check(tensor: Tensor, num_heads: int, words: Sequence[str] | None) -> list[str]:
    """Refuse what can't be cut or can't be scrambled; returns the tokens' labels."""
    shape = tuple(tensor.shape)
    if len(shape) != 3:
        raise ValueError(f"tensor must be (batch, token, width), got the shape {shape}: give three axes.")
    if not isinstance(num_heads, int) or isinstance(num_heads, bool):
        raise TypeError(f"num_heads must be a whole number, got {num_heads!r}.")
    if num_heads < 1 or shape[2] % num_heads:
        raise ValueError(f"num_heads={num_heads} does not divide the width {shape[2]}: give a divisor of it.")
    if num_heads == 1 or shape[1] == 1:
        few = "num_heads=1" if num_heads == 1 else f"tensor has one token, its shape is {shape}"
        raise ValueError(f"{few}: both ways give the same, there is nothing to scramble. Give two or more.")
    if words is not None and len(words) != shape[1]:
        raise ValueError(f"words has {len(words)} labels for {shape[1]} tokens: give one a token.")
    return [f"token {token}" for token in range(shape[1])] if words is None else [str(word) for word in words]


def _part(batch: int, num_tokens: int, num_heads: int, head_dim: int) -> str:
    """What of the tensor is drawn, "" if it is all."""
    parts = ["sample 0"] if batch > 1 else []
    for drawn, whole, name in (
        (_num_drawn_heads(num_heads), num_heads, "heads"),
        (MOST_TOKENS, num_tokens, "tokens"),
        (MOST_NUMBERS, head_dim, "numbers a row"),
    ):
        parts += [f"the first {drawn} of {whole} {name}"] if drawn < whole else []
    return ", ".join(parts)


def _num_drawn_heads(num_heads: int) -> int:
    return num_heads if num_heads <= MOST_HEADS else 2


def _draw(cuts: Sequence[Cut], numbers: Tensor, title: str, part: str) -> str:
    drawing = Drawing()
    drawing.text(0, 14, clip(title, WIDTH, 16, bold=True), size=16, bold=True)
    how = "Colour: the head a row truly belongs to. ✗: not what its place says."
    drawing.text(0, 36, how, color=QUIET)
    if part:
        drawing.text(0, 54, f"Drawn: {part}.", color=QUIET)
    y = drawing.height + 18
    sections = [_section(cut, numbers) for cut in cuts]
    beside = sections[0].width + 2 * COLUMN + sections[1].width <= WIDTH
    drawing.place(sections[0], 0, y)
    if beside:
        drawing.place(sections[1], sections[0].width + 2 * COLUMN, y)
    else:
        drawing.place(sections[1], 0, drawing.height + 26)
    return drawing.svg()


def _section(cut: Cut, numbers: Tensor) -> Drawing:
    """One way: its code, how many rows are wrong, and a block a head, as many in a line as fit and fill it."""
    section = Drawing()
    rows = cut.index.shape[0] * cut.index.shape[1]
    verdict = f"✗ {cut.num_wrong} of {rows} rows are wrong" if cut.num_wrong else f"✓ all {rows} rows are right"
    section.text(0, 13, clip(cut.code, WIDTH, 13, bold=True, mono=True), size=13, bold=True, mono=True)
    section.text(0, 32, verdict, bold=bool(cut.num_wrong), color=FOLLOW if cut.num_wrong else QUIET)
    blocks = [_block(cut, head, numbers) for head in range(_num_drawn_heads(cut.index.shape[0]))]
    width, height = max(block.width for block in blocks) + COLUMN, blocks[0].height + COLUMN
    fitting = max(1, int((WIDTH + COLUMN) // width))
    in_line = max(n for n in range(1, fitting + 1) if len(blocks) % n == 0)
    for i, block in enumerate(blocks):
        section.place(block, i % in_line * width, 48 + i // in_line * height)
    return section


def _block(cut: Cut, head: int, numbers: Tensor) -> Drawing:
    """One head: a row a token, with the mark beside it."""
    block = Drawing()
    _, num_tokens, head_dim = cut.index.shape
    tokens, columns = range(min(num_tokens, MOST_TOKENS)), range(min(head_dim, MOST_NUMBERS))
    texts = [[number_text(numbers[cut.index[head, t, c]].item()) for c in columns] for t in tokens]
    box = max(CELL, math.ceil(max(text_width(text, 11) for row in texts for text in row)))
    pitch = box + STEP - CELL
    names = [clip(cut.names[token], 80, 12) for token in tokens]
    left = max(text_width(name, 12) for name in names) + 8
    end = left + len(columns) * pitch
    block.text(left + (len(columns) * pitch - 2) / 2, 12, f"head {head}", bold=True, anchor="middle")
    colors: dict[str, list] = {}
    places = []
    for token in tokens:
        y = 20 + token * STEP
        true_head, true_token = cut.really(head, token)
        block.text(left - 8, y + 16, names[token], anchor="end")
        corners = [(left + c * pitch, y) for c in columns]
        colors.setdefault(head_color(true_head), []).extend(corners)
        places += [(x + (box - CELL) / 2, y, text) for (x, _), text in zip(corners, texts[token], strict=True)]
        dots = head_dim > len(columns)
        if dots:
            places.append((end - 4, y, "…"))
        if cut.holds[head, token]:
            block.text(end + (18 if dots else 6), y + 16, "✓", size=11, color=QUIET)
        else:
            really = f"✗ really: {clip(cut.names[true_token], 80, 11)}, head {true_head}"
            block.text(end + (18 if dots else 6), y + 16, really, size=11, color=FOLLOW)
    for color, corners in colors.items():
        block.cells(corners, color, width=box)
    block.numbers(places)
    return block
