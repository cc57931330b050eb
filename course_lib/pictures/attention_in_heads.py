"""What happens within each head: queries meet keys, the weights mix the values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.attention import attend

from .blocks import beside, block, plain_numbers, two_digits
from .drawing import PLAIN, Drawing, head_color, stack
from .picture import Picture
from .products import check_words

MOST_HEADS = 4
SHADES = ("#F5F8FB", "#E9F0F6", "#DAE5EF", "#C3D5E5", "#AAC3DA", "#8FB0CE")  # of a weight from 0 to 1
HIDDEN = "#D0D4DA"


def attention_in_heads(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    keep: Tensor | None = None,
    words: Sequence[str] | None = None,
    *,
    title: str | None = None,
) -> Picture:
    """Draw attention within each head, with its numbers: one row a head.

        weights_i = softmax(queries_i keys_i^T / sqrt(head_dim), where keep);  context_i = weights_i values_i

    Args:
        queries: (batch, head, token, head_dim); the first sample is drawn.
        keys, values: (batch, kv head, token, head_dim), as `attend` takes them.
        keep: bool, True = may attend, as `attend` takes it; everything may be seen if None.
        words: labels of the tokens.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError, TypeError: tensors or a mask that `attend` refuses, words that don't fit.
    """
    q, k, v = (
        plain_numbers(tensor, name, "head token head_dim")
        for tensor, name in ((queries, "queries"), (keys, "keys"), (values, "values"))
    )
    kept = None if keep is None else keep.detach().cpu()
    if kept is not None and kept.dim() == 4:
        kept = kept[:1]
    context, weights = (one[0] for one in attend(q[None], k[None], v[None], kept))
    hidden = torch.zeros_like(weights, dtype=torch.bool) if kept is None else ~kept.expand(1, *weights.shape)[0]
    query_words = check_words(words, q.shape[1])
    key_words = query_words if k.shape[1] == q.shape[1] else check_words(None, k.shape[1])
    shared_by = len(q) // len(k)
    rows, said = [], []
    for head in range(min(len(q), MOST_HEADS)):
        group = head // shared_by
        rows.append(_draw_head(head, group, q, k, v, weights, hidden, context, query_words, key_words))
        best = weights[head].argmax(dim=-1).tolist()
        looks = ", ".join(f"{query} at {key_words[key]}" for query, key in zip(query_words, best, strict=True))
        said.append(f"Head {head} looks most: {looks}.")
    drawing = Drawing()
    drawing.text(0, 16, title or "Each head by itself: compare, weigh, mix", size=16, bold=True)
    drawing.place(stack(rows, gap=18), 0, 34)
    first = f"{len(q)} heads, each with a softmax of its own; weights of shape {tuple(weights.shape)}."
    if len(q) > MOST_HEADS:
        first += f" The first {MOST_HEADS} are drawn."
    if hidden.any():
        first += " Cells with a dot are hidden."
    return Picture(
        svg=drawing.svg(),
        words=" ".join([first, *said]),
        caption="Queries times keys, divided by the square root of head_dim, through softmax, times values: " + first,
    )


def _draw_head(
    head: int,
    group: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    weights: Tensor,
    hidden: Tensor,
    context: Tensor,
    query_words: list[str],
    key_words: list[str],
) -> Drawing:
    own = head_color(head)
    other = head_color(group) if len(k) == len(q) else PLAIN  # shared keys and values belong to no single head

    def shade(row: int, column: int) -> str:
        if hidden[head, row, column]:
            return HIDDEN
        return SHADES[min(int(float(weights[head, row, column]) * len(SHADES)), len(SHADES) - 1)]

    def number(row: int, column: int) -> str:
        return "·" if hidden[head, row, column] else two_digits(float(weights[head, row, column]))

    parts = [
        block(q[head], f"queries {head}", rows=query_words, color=lambda *_: own)[0],
        "@",
        block(k[group].T, f"keys {group}, transposed", columns=key_words, color=lambda *_: other)[0],
        "→",
        block(weights[head], f"weights {head}", columns=key_words, color=shade, text=number)[0],
        "@",
        block(v[group], f"values {group}", color=lambda *_: other)[0],
        "=",
        block(context[head], f"context {head}", color=lambda *_: own)[0],
    ]
    return beside(parts, 38 + 26 + 5)


def heads_of(
    queries: Tensor, keys: Tensor, values: Tensor, words: Sequence[str] | None = None, *, title: str | None = None
) -> Picture:
    """Draw the blocks that the heads work on: one row each for queries, keys and values, one column a head.

    Args:
        queries: (batch, head, token, head_dim); the first sample is drawn.
        keys, values: (batch, kv head, token, head_dim).
        words: labels of the tokens.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError, TypeError: tensors of other axes, heads that the kv heads don't divide, words that don't fit.
    """
    roles = {
        name: plain_numbers(tensor, name, "head token head_dim")
        for tensor, name in ((queries, "queries"), (keys, "keys"), (values, "values"))
    }
    num_heads = len(roles["queries"])
    for name, tensor in roles.items():
        if num_heads % len(tensor):
            raise ValueError(f"{name} has {len(tensor)} heads, which does not divide the {num_heads} of queries.")
    words = check_words(words, roles["queries"].shape[1])
    rows, said = [], []
    for name, tensor in roles.items():
        shared_by = num_heads // len(tensor)
        parts = []
        for head in range(min(len(tensor), MOST_HEADS)):
            whose = f"heads {head * shared_by} to {(head + 1) * shared_by - 1}" if shared_by > 1 else f"head {head}"
            fill = head_color(head) if shared_by == 1 else PLAIN
            labels = words if not parts else ()
            parts.append(block(tensor[head], f"{name}, {whose}", rows=labels, color=lambda *_, fill=fill: fill)[0])
        rows.append(beside(parts, 0))
        said.append(
            f"{name}: {len(tensor)} of shape {tuple(tensor.shape[1:])}"
            + (f", each shared by {shared_by} heads" if shared_by > 1 else "")
        )
    drawing = Drawing()
    drawing.text(0, 16, title or "What each head works on", size=16, bold=True)
    drawing.place(stack(rows, gap=14), 0, 34)
    text = "; ".join(said) + "." + (f" The first {MOST_HEADS} heads are drawn." if num_heads > MOST_HEADS else "")
    caption = f"{num_heads} heads, each a table of tokens."
    return Picture(svg=drawing.svg(), words=text[0].upper() + text[1:], caption=caption)
