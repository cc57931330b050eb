"""The family picture: which key and value head each query head really reads, found out by asking the modules."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .drawing import CELL, FOLLOW, PLAIN, QUIET, Drawing, head_color, stack
from .picture import Picture

MOST_HEADS = 12
BOX = 40  # pixels, a head's width
PARTS = ("q_proj", "k_proj", "v_proj", "num_heads", "head_dim")


def family(modules: Mapping[str, nn.Module], x: Tensor, *, title: str | None = None) -> Picture:
    """Draw query heads and the key and value heads they read, for several modules.

    Nothing is believed: the weights of one key head are changed in a copy, and the query heads whose attention weights
    change are those that read it. Parameters and numbers in the cache are counted on the real tensors.

    Args:
        modules: name -> module with q_proj, k_proj, v_proj, num_heads and head_dim that takes return_weights=True.
        x: (batch, token, d_in), any input with two tokens or more.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError: no module, an x with one token, where nothing could change.
        TypeError: a module of another make.
    """
    check_modules(modules, x)
    panels, said = [], []
    for name, module in modules.items():
        readers = _readers(module, x)
        panels.append(_draw(name, module, readers, cache_numbers(module, x)))
        said.append(_in_words(name, module, readers, cache_numbers(module, x)))
    drawing = Drawing()
    drawing.text(0, 16, title or "Who shares keys and values", size=16, bold=True)
    drawing.text(0, 36, "A line: this query head reads that key head, measured by changing its keys.", color=QUIET)
    drawing.place(stack(panels, gap=26), 0, 56)
    caption = "Every head has queries of its own; the fewer keys and values there are, the smaller the cache."
    return Picture(svg=drawing.svg(), words=" ".join(said), caption=caption)


def check_modules(modules: Mapping[str, nn.Module], x: Tensor) -> None:
    """Refuse what can't be asked."""
    if not modules:
        raise ValueError("modules is empty: give a dict of name -> attention module.")
    if not isinstance(x, Tensor) or x.dim() != 3 or x.shape[1] < 2 or x.is_meta:
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x must be (batch, token, d_in) with two tokens or more, got {shape}.")
    for name, module in modules.items():
        missing = [part for part in PARTS if not hasattr(module, part)]
        if missing:
            raise TypeError(f"module {name!r} has no {missing[0]}: give an attention module of the course's forms.")


def num_kv_heads(module: nn.Module) -> int:
    """How many key heads the module's k_proj really makes."""
    return module.k_proj.out_features // module.head_dim


def cache_numbers(module: nn.Module, x: Tensor) -> int:
    """How many numbers a cache keeps for one token, counted on real keys and values."""
    with torch.no_grad():
        return module.k_proj(x)[0, 0].numel() + module.v_proj(x)[0, 0].numel()


def _readers(module: nn.Module, x: Tensor) -> list[list[int]]:
    """For each key head, the query heads whose weights change with it."""
    patient = copy.deepcopy(module).eval().double()
    patient.kernel = "explicit"
    x = x.detach().double()
    generator = torch.Generator().manual_seed(0)
    readers = []
    with torch.no_grad():
        _, before = patient(x, return_weights=True)
        for group in range(num_kv_heads(module)):
            rows = patient.k_proj.weight[group * module.head_dim : (group + 1) * module.head_dim]
            kept = rows.clone()
            rows.copy_(torch.randn(rows.shape, generator=generator, dtype=torch.float64).to(rows.device) * 3)
            _, after = patient(x, return_weights=True)
            rows.copy_(kept)
            changed = (after - before).abs().amax(dim=(0, 2, 3)) > 1e-9  # (head,)
            readers.append(changed.nonzero().flatten().tolist())
    return readers


def _draw(name: str, module: nn.Module, readers: list[list[int]], in_cache: int) -> Drawing:
    drawing = Drawing()
    groups = len(readers)
    drawn = min(module.num_heads, MOST_HEADS)
    drawing.text(0, 13, name, size=14, bold=True)
    part = f", the first {drawn} drawn" if drawn < module.num_heads else ""
    shared = f"{module.num_heads} query heads, {groups} of keys and values{part}"
    drawing.text(150, 13, shared, size=12, color=QUIET)
    owner = {head: group for group, heads in enumerate(readers) for head in heads}
    middles: dict[int, float] = {}
    for group in range(groups):
        heads = [head for head in readers[group] if head < drawn]
        if heads:
            middles[group] = sum(heads) / len(heads) * (BOX + 6) + BOX / 2
    for head in range(drawn):
        x = head * (BOX + 6)
        color = head_color(owner[head]) if head in owner else PLAIN
        drawing.cells([(x, 26)], color, width=BOX)
        drawing.text(x + BOX / 2, 42, f"q{head}", size=11, anchor="middle")
        if head in owner:
            drawing.lines([(x + BOX / 2, 26 + CELL, middles[owner[head]], 78)])
    for group, middle in middles.items():
        drawing.cells([(middle - BOX / 2, 78)], head_color(group), width=BOX)
        drawing.text(middle, 94, f"k{group} v{group}", size=11, anchor="middle")
    unused = [group for group in range(groups) if not readers[group]]
    if unused:
        drawing.text(0, 120, f"✗ unused: {', '.join(f'k{group}' for group in unused)}", color=FOLLOW, size=11)
    parameters = sum(p.numel() for one in (module.k_proj, module.v_proj) for p in one.parameters())
    left = max(drawn, 4) * (BOX + 6) + 24
    drawing.text(left, 56, f"parameters of k_proj and v_proj: {parameters:,}", size=11)
    drawing.text(left, 74, f"numbers in the cache for one token: {in_cache:,}", size=11, bold=True)
    return drawing


def _in_words(name: str, module: nn.Module, readers: list[list[int]], in_cache: int) -> str:
    if all(len(heads) == 1 for heads in readers):
        shares = "each query head reads keys and values of its own"
    else:
        shares = "; ".join(
            f"key head {group} is read by {'query heads ' + ', '.join(map(str, heads)) if heads else 'nobody'}"
            for group, heads in enumerate(readers)
        )
    heads = f"query heads {module.num_heads}, key and value heads {len(readers)}"
    return f"{name}: {heads}; {shares}; numbers a token in the cache: {in_cache}."
