"""One mask in PyTorch's two senses, and what each token really looks at, measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import to_torch_mask

from .drawing import CELL, FOLLOW, LINE, PLAIN, QUIET, STEP, Drawing, text_width
from .memory.numbers import clip
from .picture import Picture
from .products import check_words

LOOKS = "#6DB7E4"
MOST = 8  # tokens: three tables of them fit beside each other
ROOM = 250  # pixels of a table with the words of its rows
BLIND = 16  # fewer where a note on rows that see nothing stands beside the third
TOP = 82  # pixels above the cells: two lines of names, one of sense, two of words
NOTHING = "sees nothing"


def mask_conventions(keep: Tensor, words: Sequence[str] | None = None, *, title: str | None = None) -> Picture:
    """Draw a mask as two functions of PyTorch want it, and what the tokens look at then.

    What they look at is measured: `F.scaled_dot_product_attention` runs with keep and `nn.MultiheadAttention` with
    `to_torch_mask(keep)`, on random input, and the weights above zero are marked. What a mix-up does is measured too.

    Args:
        keep: bool, (query, key), True = may attend; as many queries as keys, 8 at most.
        words: labels of the tokens; numbers if None.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError: another shape, a mask on the meta device, words that don't fit.
        TypeError: a mask that isn't a bool tensor.
        RuntimeError: the two don't agree, so that there is no one thing to draw.

    Example:
        >>> print(mask_conventions(causal_keep(2), ("a", "b")).words.splitlines()[-1])
        Mixed up, with keep itself, nn.MultiheadAttention gives 100% of its weight to hidden tokens; 1 of 2 rows is nan.
    """
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
        kind = keep.dtype if isinstance(keep, Tensor) else type(keep).__name__
        raise TypeError(f"keep must be a bool tensor with True = may attend, got {kind}.")
    if keep.dim() != 2 or keep.shape[0] != keep.shape[1] or not 0 < len(keep) <= MOST:
        raise ValueError(
            f"keep must be (query, key) with as many queries as keys, 8 at most, got {tuple(keep.shape)}: "
            "give a corner of it, such as keep[:6, :6]."
        )
    if keep.is_meta:
        raise ValueError("keep is on the meta device and holds no values: give a mask with values.")
    keep = keep.cpu()
    room = ROOM - len(keep) * STEP - (0 if keep.any(dim=-1).all() else BLIND)
    words = [clip(word, room, 12) for word in check_words(words, len(keep))]
    by_function, by_module, mistaken = _measure(keep)
    looks = by_function > 0
    if not torch.equal(looks, by_module > 0):  # a row of nan looks at nothing, like one of zeros
        raise RuntimeError("F.scaled_dot_product_attention and nn.MultiheadAttention don't look at the same tokens.")
    hidden = to_torch_mask(keep)
    opposite = "The tables are opposite, what the tokens look at is the same."
    mixed = f"Mixed up, with keep itself, nn.MultiheadAttention {_mistake(keep, mistaken)}."
    drawing = Drawing()
    drawing.text(0, 16, title or "One mask, two senses", size=16, bold=True)
    drawing.text(0, 36, opposite, color=QUIET)
    tables = [
        _draw(keep, ("keep", "F.scaled_dot_product_attention", "T = may attend"), words),
        _draw(hidden, ("to_torch_mask(keep)", "nn.MultiheadAttention", "T = hidden"), words),
        _draw(looks, ("both, measured", "weights above 0", "✓ = looks, hatched = 0"), words, measured=True),
    ]
    for index, table in enumerate(tables):
        drawing.place(table, sum(ceil(before.width) + 22 for before in tables[:index]), 56)
    drawing.text(0, drawing.height + 24, f"✗ {mixed}", color=FOLLOW)
    said = ["The same mask, as keep (True = may attend) and as to_torch_mask(keep) (True = hidden). " + opposite]
    rows = [
        f"{word} looks at {', '.join(words[key] for key in row.nonzero().flatten().tolist()) or 'nothing'}"
        for word, row in zip(words, looks, strict=True)
    ]
    said += [f"Measured: {'; '.join(rows)}.", mixed]
    caption = f"{opposite} {_of_blind_rows(by_function, by_module)}{mixed}"
    return Picture(svg=drawing.svg(), words="\n".join(said), caption=caption)


def _measure(keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (query, key): of the function with keep, of the module with its own mask, of the module with keep."""
    num_tokens, width = len(keep), 4
    generator = torch.Generator().manual_seed(0)
    plain = {"dtype": torch.float64, "device": "cpu"}
    x = torch.randn(1, num_tokens, width, generator=generator, **plain)
    identity = torch.eye(num_tokens, **plain)[None]  # as values it gives back the weights
    with torch.random.fork_rng(devices=[]):  # building a module draws from the global generator
        module = nn.MultiheadAttention(width, num_heads=1, batch_first=True, **plain).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, **plain) / 2)
        by_function = F.scaled_dot_product_attention(x, x, identity, attn_mask=keep)[0]
        by_module, mistaken = (module(x, x, x, attn_mask=mask)[1][0] for mask in (to_torch_mask(keep), keep))
    return by_function, by_module, mistaken


def _mistake(keep: Tensor, mistaken: Tensor) -> str:
    """What the module did with the mask of the other sense."""
    blind = int(mistaken.isnan().any(dim=-1).sum())
    rows = f"{blind} of {len(keep)} rows {'is' if blind == 1 else 'are'} nan"
    if blind == len(keep):
        return f"gives no weights at all: {rows}"
    finite = mistaken.nan_to_num()
    share = finite[~keep].sum() / finite.sum()
    return f"gives {share.item():.0%} of its weight to hidden tokens" + (f"; {rows}" if blind else "")


def _of_blind_rows(by_function: Tensor, by_module: Tensor) -> str:
    """What a row becomes that sees nothing; "" if there is none."""
    blind = ~(by_function > 0).any(dim=-1)
    if not blind.any():
        return ""
    one, two = ("nan" if table[blind].isnan().all() else "zeros" for table in (by_function, by_module))
    what = f"{one} from both" if one == two else f"{one} from the function, {two} from the module"
    return f"A token that sees nothing gets {what}. "


def _draw(table: Tensor, names: tuple[str, str, str], words: Sequence[str], *, measured: bool = False) -> Drawing:
    """One table with its name, who takes it, and what a mark in it means."""
    drawing = Drawing()
    left = max(ceil(text_width(word)) for word in words) + 8
    drawing.text(0, 13, names[0], size=13, bold=True, mono=not measured)
    drawing.text(0, 29, names[1], size=11, color=QUIET, mono=not measured)
    drawing.text(0, 45, names[2], size=11, bold=True)
    for column, word in enumerate(words):
        short = clip(word, 2 * STEP - 10)
        drawing.text(left + column * STEP + CELL / 2, TOP - 17 + 12 * (column % 2), short, size=11, anchor="middle")
    marks, hatches = [], []
    colors: dict[str, list[tuple[float, float]]] = {}
    for row, word in enumerate(words):
        y = TOP + row * STEP
        drawing.text(left - 6, y + 17, word, anchor="end")
        for column, true in enumerate(table[row].tolist()):
            x = left + column * STEP
            colors.setdefault(LOOKS if measured and true else PLAIN, []).append((x, y))
            if not measured:
                marks.append((x, y, "T" if true else "F"))
            elif true:
                marks.append((x, y, "✓"))
            else:
                hatches += [(x, y + 12, x + 12, y), (x, y + 24, x + 24, y), (x + 12, y + 24, x + 24, y + 12)]
        if measured and not table[row].any():
            drawing.text(left + len(words) * STEP + 4, y + 17, NOTHING, size=11)
    for color, corners in colors.items():
        drawing.cells(corners, color)
    drawing.lines(hatches, color=LINE, width=1)
    drawing.numbers(marks)
    return drawing
