"""The picture of heads spread over devices: which rows and columns each holds, and the sum in which they meet."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .device_drawing import PLACES, draw_device, spans
from .drawing import CELL, QUIET, Drawing
from .memory.numbers import clip
from .picture import Picture
from .products import check_words
from .readers import check_modules, num_kv_heads, twin_of
from .wording import listed

MOST_DEVICES, MOST_HEADS = 4, 8


def devices(
    whole: nn.Module,
    parts: Sequence[nn.Module],
    x: Tensor,
    words: Sequence[str] | None = None,
    *,
    follow: tuple[int, int] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw what each device holds of a module's weights, and one number of the output as the sum of theirs.

    Nothing is believed: a device's blocks of weights are looked for in the whole module's, head by head, and the sum of
    the devices' outputs must equal the whole module's, in 64 bits.

    Args:
        whole: with q_proj, k_proj, v_proj, out_proj, num_heads and head_dim, 8 heads at most.
        parts: one module a device, 4 at most, such as `shard` gives. Of heads with equal weights the first is drawn.
        x: (batch, token, d_in).
        words: labels of the tokens; numbers if None.
        follow: (token, column) of the number of the output that is followed; the last token's first if None.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError: too much to draw, weights that the whole module doesn't have, outputs that don't add up, a number
            that there isn't, words that don't fit.
        TypeError: a module of another make.

    Example:
        >>> print(devices(whole, [shard(whole, device, 2) for device in (0, 1)], x).caption)
        What 2 devices give adds up to the whole module's output: checked in 64 bits.
    """
    names = [f"device {device}" for device in range(len(parts))]
    modules = {"whole": whole, **dict(zip(names, parts, strict=True))}
    check_modules(modules, x)
    for name, module in modules.items():
        if getattr(module, "out_proj", None) is None:
            raise ValueError(f"module {name!r} has no out_proj, so outputs can't be added up: build it with one.")
    words = check_words(words, x.shape[1])
    if not 1 <= len(parts) <= MOST_DEVICES or whole.num_heads > MOST_HEADS:
        raise ValueError(
            f"{len(parts)} devices and {whole.num_heads} heads can't be drawn: give 1 to {MOST_DEVICES} parts of a "
            f"module with {MOST_HEADS} heads at most."
        )
    held = [held_by(name, part, whole) for name, part in zip(names, parts, strict=True)]
    with torch.no_grad():
        expected, *outputs = (twin_of(module)(x.double()).cpu() for module in (whole, *parts))
    if not torch.allclose(sum(outputs), expected, rtol=0, atol=1e-9):
        raise ValueError("the parts' outputs don't add up to the whole module's: give one part for each device.")
    token, column = (len(words) - 1, 0) if follow is None else follow
    if not (0 <= token < len(words) and 0 <= column < expected.shape[2]):
        raise ValueError(f"follow={follow} is no number of the output, of shape {tuple(expected.shape[1:])}.")
    numbers = [f"{output[0, token, column]:.4f}" for output in outputs]
    total = f"{expected[0, token, column]:.4f}"
    place, below = (f"“{word}”, column {column}" for word in (words[token], clip(words[token], 60)))
    count = f"{len(parts)} device{'s' * (len(parts) > 1)}"

    drawing = Drawing()
    drawing.text(0, 16, title or f"Heads spread over {count}", size=16, bold=True)
    note = "A block is a head: rows of q_proj, k_proj and v_proj, columns of out_proj. Dashed: on another device."
    drawing.text(0, 36, note, color=QUIET)
    y, middles, said = 58.0, [], []
    for name, blocks, number in zip(names, held, numbers, strict=True):
        band = draw_device(name, blocks, whole, tuple(x.shape), number, below)
        drawing.place(band, 0, y)
        middles.append(y + 44 + CELL)
        said.append(f"{name} holds {listed([in_words(part, *found) for part, found in blocks.items()])}.")
        said.append(f"Its output for {place}: {number}.")
        y += band.height + 22
    edge = drawing.width + 14
    ends = [(edge - 14, middle, edge, middle) for middle in middles]
    drawing.lines([*ends, (edge, middles[0], edge, y + 8), (edge, y + 8, edge - 14, y + 8)])
    sum_of = f"{' + '.join(numbers)} = {total} (rounded)".replace("+ -", "− ").replace("-", "−")
    drawing.text(edge - 20, y + 12, f"all-reduce, every device gets the sum: {sum_of}", bold=True, anchor="end")
    said.append(f"All-reduce: {sum_of}, the whole module's output.")
    caption = f"What {count} give{'s' * (len(parts) == 1)} adds up to the whole module's output: checked in 64 bits."
    return Picture(svg=drawing.svg(), words=" ".join(said), caption=caption)


def held_by(name: str, part: nn.Module, whole: nn.Module) -> dict[str, tuple[list[int], int]]:
    """For each projection the heads whose blocks of weights a part has, and how many rows or columns a head takes."""
    held = {}
    for projection in (*PLACES, "out_proj"):
        here, there = (getattr(one, projection).weight.detach() for one in (part, whole))
        if projection == "out_proj":
            here, there = here.T, there.T
        width = there.shape[0] // (num_kv_heads(whole) if projection in ("k_proj", "v_proj") else whole.num_heads)
        blocks = list(there.split(width))
        found = [
            next((head for head, block in enumerate(blocks) if torch.equal(block, mine)), None)
            for mine in here.split(width)
        ]
        if None in found:
            raise ValueError(
                f"{name} holds weights of {projection} that the whole module doesn't: cut it with shard()."
            )
        held[projection] = (found, width)
    return held


def in_words(projection: str, heads: Sequence[int], width: int) -> str:
    """What a device holds of one projection."""
    kind = "columns" if projection == "out_proj" else "rows"
    return f"{kind} {spans(heads, width)} of {projection} (head{'s' * (len(heads) > 1)} {listed([*map(str, heads)])})"
