"""The family picture: which key and value head each query head really reads, found out by asking the modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil

from torch import Tensor, nn

from .drawing import CELL, FOLLOW, PLAIN, QUIET, Drawing, head_color, stack, text_width
from .memory.numbers import clip
from .picture import Picture
from .readers import check_modules, find_readers, keys_and_values
from .wording import listed

MOST_HEADS = 12
BOX, NEXT = 46, 50  # pixels: a head's width, and from a head to its neighbour
KEYS = 80  # pixels above the heads of keys and values
SAID = 16  # heads of keys; more aren't read out one by one


def family(modules: Mapping[str, nn.Module], x: Tensor, *, title: str | None = None) -> Picture:
    """Draw query heads and the heads of keys and values they read, for several modules.

    Nothing is believed: in a copy of the module the weights of one head of keys are changed, and the query heads whose
    attention weights move are those that read it; values likewise, by what comes out of the heads. Parameters and the
    numbers in a cache are counted on the real tensors.

    Args:
        modules: name -> module with q_proj, k_proj, v_proj, num_heads and head_dim that takes return_weights=True.
        x: (batch, token, d_in), any input with two tokens or more.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError: no module, an x with which nothing can change.
        TypeError: a module of another make.

    Example:
        >>> print(family({"shared": MultiQueryAttention(3, 4, num_heads=2)}, dream_big().batch).words)
        shared: 2 query heads, 1 head of keys and values. Query heads 0 and 1 read k0 v0. Parameters of k_proj and
        v_proj: 12; numbers a token in a cache: 4.
    """
    check_modules(modules, x)
    panels, said, kept = [], [], {}
    for name, module in modules.items():
        readers, of_values = find_readers(name, module, x)
        parameters = sum(p.numel() for one in (module.k_proj, module.v_proj) for p in one.parameters())
        kept[name] = sum(tensor[0, :, 0].numel() for tensor in keys_and_values(module, x))
        faults = _faults(readers, of_values)
        counts = f"{module.num_heads} query heads, {_count(len(readers))} of keys and values"
        if module.num_heads > MOST_HEADS:
            counts += f" (drawn: the first {MOST_HEADS} query heads)"
        panels.append(_draw(name, module.num_heads, readers, counts, faults, parameters, kept[name]))
        sentences = [f"{name}: {counts}", _in_words(module.num_heads, readers), *faults]
        sentences.append(f"Parameters of k_proj and v_proj: {parameters:,}; numbers a token in a cache: {kept[name]:,}")
        said.append(". ".join(sentences) + ".")
    drawing = Drawing()
    drawing.text(0, 16, title or "Who shares keys and values", size=16, bold=True)
    how = "A line: this query head reads those keys and values. Measured: they were changed, and the head noticed."
    drawing.text(0, 36, how, color=QUIET)
    drawing.place(stack(panels, gap=26), 0, 58)
    counts = [f"{name} keeps {number:,}" for name, number in kept.items()]
    caption = f"In a cache, {listed(counts)} numbers a token."
    return Picture(svg=drawing.svg(), words="\n".join(said), caption=caption)


def _faults(readers: list[list[int]], of_values: list[list[int]]) -> list[str]:
    """What is not as in any of the course's forms."""
    every = [head for heads in readers for head in heads]
    several = sorted({head for head in every if every.count(head) > 1})
    unused = [f"k{group}" for group, heads in enumerate(readers) if not heads]
    faults = [f"Unused, no query head reads it: {', '.join(unused)}"] if unused else []
    faults += [f"Reading several heads of keys: query {_heads(several)}"] if several else []
    return faults + (["The values are read by other heads than the keys"] if of_values != readers else [])


def _draw(
    name: str,
    num_heads: int,
    readers: list[list[int]],
    counts: str,
    faults: list[str],
    parameters: int,
    in_cache: int,
) -> Drawing:
    """One module: its query heads, below them the heads of keys and values, a line from each to what it reads."""
    drawing = Drawing()
    drawn = min(num_heads, MOST_HEADS)
    drawn_groups = ceil(len(readers) * drawn / num_heads)
    name = clip(name, 300, 14, bold=True)
    drawing.text(0, 13, name, size=14, bold=True)
    drawing.text(max(150, ceil(text_width(name, 14, bold=True)) + 16), 13, counts, color=QUIET)
    read = {head: [group for group, heads in enumerate(readers) if head in heads] for head in range(drawn)}
    width = drawn * NEXT - (NEXT - BOX)
    room = drawn * NEXT / drawn_groups
    middles = [round((group + 0.5) * room, 1) - (NEXT - BOX) / 2 for group in range(drawn_groups)]  # below readers
    drawing.lines(
        (head * NEXT + BOX / 2, 26 + CELL, middle, KEYS)
        for middle, heads in zip(middles, readers, strict=False)
        for head in heads
        if head < drawn
    )
    for head in range(drawn):
        color = head_color(read[head][0]) if len(read[head]) == 1 else PLAIN
        drawing.cells([(head * NEXT, 26)], color, width=BOX)
        drawing.text(head * NEXT + BOX / 2, 42, f"q{head}", anchor="middle")
    for group, middle in enumerate(middles):
        drawing.cells([(middle - BOX / 2, KEYS)], head_color(group) if readers[group] else PLAIN, width=BOX)
        drawing.text(middle, KEYS + 16, f"k{group} v{group}", size=11, anchor="middle")
        if not readers[group]:
            drawing.text(middle, KEYS + 38, "unused", size=11, color=FOLLOW, anchor="middle")
    y = KEYS + 22 + 18 * (not all(readers[:drawn_groups]))
    for fault in faults:
        y += 18
        drawing.text(0, y, clip(f"✗ {fault}", 820), size=11, color=FOLLOW)
    left = max(width, 4 * NEXT) + 16
    drawing.text(left, 56, f"parameters of k_proj and v_proj: {parameters:,}", size=11)
    drawing.text(left, 74, f"numbers in the cache for one token: {in_cache:,}", size=11, bold=True)
    return drawing


def _in_words(num_heads: int, readers: list[list[int]]) -> str:
    if readers == [[head] for head in range(num_heads)]:
        return "Each query head reads keys and values of its own"
    said = [
        f"query {_heads(heads)} read{'s' * (len(heads) == 1)} k{group} v{group}"
        for group, heads in enumerate(readers[:SAID])
        if heads
    ]
    text = listed(said) + (f", and so on to k{len(readers) - 1}" if len(readers) > SAID else "")
    return f"{text[0].upper()}{text[1:]}"


def _heads(heads: Sequence[int]) -> str:
    """Numbers of heads as one would say them: head 3, heads 0 and 2, heads 0 to 3."""
    if len(heads) > 2 and all(two - one == 1 for one, two in pairwise(heads)):
        return f"heads {heads[0]} to {heads[-1]}"
    return f"head{'s' * (len(heads) > 1)} {listed([str(head) for head in heads])}"


def _count(heads: int) -> str:
    return f"{heads} head{'s' * (heads != 1)}"
