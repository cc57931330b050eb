"""One mask in PyTorch's two senses, and what each token really looks at, measured."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import to_torch_mask

from .drawing import CELL, PLAIN, QUIET, STEP, Drawing, text_width
from .picture import Picture
from .products import check_words

LOOKS, HIDDEN = "#6DB7E4", "#D0D4DA"
MOST = 8


def mask_conventions(keep: Tensor, words: Sequence[str] | None = None, *, title: str | None = None) -> Picture:
    """Draw a mask as the two functions of PyTorch want it, and what they do with it.

    What each token looks at is measured: `F.scaled_dot_product_attention` runs with keep and `nn.MultiheadAttention`
    with `to_torch_mask(keep)`, on random input, and the weights above zero are drawn.

    Args:
        keep: bool, (query, key), True = may attend.
        words: labels of the tokens.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError: another shape, more than 8 tokens, words that don't fit.
        TypeError: a mask that isn't a bool tensor.
    """
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
        kind = keep.dtype if isinstance(keep, Tensor) else type(keep).__name__
        raise TypeError(f"keep must be a bool tensor with True = may attend, got {kind}.")
    if keep.dim() != 2 or keep.shape[0] != keep.shape[1] or not 0 < len(keep) <= MOST:
        raise ValueError(f"keep must be (query, key) with as many queries as keys, 8 at most, got {tuple(keep.shape)}.")
    keep = keep.detach().cpu()
    words = check_words(words, len(keep))
    by_function, by_module, mistaken = _measure(keep)
    looks = by_function > 0
    # A token that sees nothing gets zeros from the one and nan from the other; everywhere else they must agree.
    sees = looks.any(dim=-1)
    if not torch.equal(looks[sees], by_module[sees] > 0):
        raise RuntimeError("F.scaled_dot_product_attention and nn.MultiheadAttention read this mask differently.")
    nan_rows = int(mistaken.isnan().any(dim=-1).sum())
    share = float(mistaken.nan_to_num()[~keep].sum() / max(float(mistaken.nan_to_num().sum()), 1e-12))
    drawing = Drawing()
    drawing.text(0, 16, title or "One mask, two senses", size=16, bold=True)
    columns = [
        ("keep", "scaled_dot_product_attention: T = may attend", keep, "TF"),
        ("to_torch_mask(keep)", "nn.MultiheadAttention: T = hidden", to_torch_mask(keep), "TF"),
        ("what both look at", "measured: weights above zero", looks, "✓·"),
    ]
    x = 0.0
    for index, (name, note, table, marks) in enumerate(columns):
        part = _draw(table, name, note, words, marks, shaded=index == 2)
        drawing.place(part, x, 34)
        x += part.width + 30
    mixed = f"Given keep itself, nn.MultiheadAttention puts {share:.0%} of its weight on hidden tokens"
    mixed += f", and {nan_rows} of {len(keep)} rows are nan." if nan_rows else "."
    drawing.text(0, drawing.height + 22, f"✗ {mixed}", size=12)
    rows = [
        f"{word} looks at {', '.join(words[k] for k in range(len(words)) if looks[q, k]) or 'nothing'}"
        for q, word in enumerate(words)
    ]
    said = "; ".join(rows)
    caption = f"The tables are opposite, the effect is the same. {mixed}"
    return Picture(svg=drawing.svg(), words=f"{said[0].upper()}{said[1:]}. {mixed}", caption=caption)


def _measure(keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (query, key): of the function with keep, of the module with its own mask, of the module with keep."""
    num_tokens, width = len(keep), 4
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, num_tokens, width, generator=generator, dtype=torch.float64)
    identity = torch.eye(num_tokens, dtype=torch.float64)[None]  # as values it gives back the weights
    by_function = F.scaled_dot_product_attention(x, x, identity, attn_mask=keep)[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.MultiheadAttention(width, num_heads=1, batch_first=True, dtype=torch.float64).eval()
    with torch.no_grad():
        by_module, mistaken = (module(x, x, x, attn_mask=mask)[1][0] for mask in (to_torch_mask(keep), keep))
    return by_function, by_module, mistaken


def _draw(table: Tensor, name: str, note: str, words: Sequence[str], marks: str, *, shaded: bool) -> Drawing:
    drawing = Drawing()
    left = max(round(text_width(word)) for word in words) + 8
    drawing.text(left, 13, name, bold=True, mono=not shaded)
    drawing.text(left, 29, note, size=11, color=QUIET)
    for column, word in enumerate(words):
        drawing.text(left + column * STEP + CELL / 2, 46 + 12 * (column % 2), word, size=11, anchor="middle")
    cells: dict[str, list[tuple[float, float]]] = {}
    numbers = []
    for row, word in enumerate(words):
        drawing.text(left - 6, 64 + row * STEP + 17, word, anchor="end")
        for column, kept in enumerate(table[row].tolist()):
            place = (left + column * STEP, 64 + row * STEP)
            color = (LOOKS if kept else HIDDEN) if shaded else PLAIN
            cells.setdefault(color, []).append(place)
            numbers.append((*place, marks[0] if kept else marks[1]))
    for color, places in cells.items():
        drawing.cells(places, color)
    drawing.numbers(numbers)
    return drawing
