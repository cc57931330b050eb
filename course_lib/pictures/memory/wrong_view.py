"""The central mistake as a picture: cutting heads out of (batch, token, width) with a view alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..drawing import QUIET, Drawing
from ..picture import Picture
from .blocks import COLUMN, MOST_NUMBERS, MOST_TOKENS, draw_cut, num_drawn_heads
from .cut import Cut
from .numbers import check_drawable, clip
from .panel import WIDTH


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
        Each head must hold its own slice of every token. The view alone cuts each sample into 2 stretches instead: 10
        of 12 rows are not what their place says.
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
        caption="Each head must hold its own slice of every token. The view alone cuts each sample into "
        f"{num_heads} stretches instead: {bad} of {rows} rows are not what their place says.",
    )


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
    parts = [f"sample 0 of {batch}"] if batch > 1 else []
    for drawn, whole, name in (
        (num_drawn_heads(num_heads), num_heads, "heads"),
        (MOST_TOKENS, num_tokens, "tokens"),
        (MOST_NUMBERS, head_dim, "numbers a row"),
    ):
        parts += [f"the first {drawn} of {whole} {name}"] if drawn < whole else []
    return ", ".join(parts)


def _draw(cuts: Sequence[Cut], numbers: Tensor, title: str, part: str) -> str:
    drawing = Drawing()
    drawing.text(0, 14, clip(title, WIDTH, 16, bold=True), size=16, bold=True)
    drawing.text(0, 36, "Colour: the head a row truly belongs to. ✗: not what its place says.", color=QUIET)
    if part:
        drawing.text(0, 54, f"Drawn: {part}.", color=QUIET)
    y = drawing.height + 18
    wrong, right = (draw_cut(cut, numbers) for cut in cuts)
    drawing.place(wrong, 0, y)
    beside = wrong.width + 2 * COLUMN
    if beside + right.width <= WIDTH:
        drawing.place(right, beside, y)
    else:
        drawing.place(right, 0, drawing.height + 26)
    return drawing.svg()
