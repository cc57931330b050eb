"""A matrix product as a picture, and the three that begin every attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .blocks import COLUMNS, HIGH, ROWS, WIDE, beside, block, plain_numbers, two_digits
from .drawing import FOLLOW, PLAIN, QUIET, Drawing, head_color
from .picture import Picture

MOST_COLUMNS = 19  # of the three matrices together; with more, each is drawn in part


def matrix_product(
    left: Tensor,
    right: Tensor,
    *,
    names: Sequence[str] = ("x", "W", "queries"),
    words: Sequence[str] | None = None,
    num_heads: int | None = None,
    follow: tuple[int, int] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw left @ right = result with its numbers; the result is computed here.

    An `nn.Linear` keeps its matrix as (out, in): give `projection.weight.T`.

    Args:
        left: (token, d_in), or (batch, token, d_in) of which the first sample is drawn.
        right: (d_in, width).
        names: what left, right and the result are called.
        words: labels of the tokens.
        num_heads: into how many heads the width is divided, head after head; not at all if None.
        follow: (token, column) of one number of the result: it is outlined and its sum written out.
        title: stands above; "names[0] @ names[1] = names[2]" if None.

    Returns:
        Picture.

    Raises:
        ValueError: shapes that can't be multiplied, a width that num_heads does not divide, a number to follow that
            there isn't, words that don't fit.
        TypeError: what isn't a tensor.
    """
    one, two = plain_numbers(left, "left", "token d_in"), plain_numbers(right, "right", "d_in width")
    if one.shape[1] != two.shape[0]:
        raise ValueError(
            f"left {tuple(one.shape)} and right {tuple(two.shape)} can't be multiplied: the last axis of left must be "
            "as long as the first of right (give an nn.Linear's weight.T)."
        )
    result = one @ two
    num_tokens, width = result.shape
    words = check_words(words, num_tokens)
    if num_heads is not None and (num_heads < 1 or width % num_heads):
        raise ValueError(f"num_heads={num_heads} does not divide the width {width} of right: choose a divisor.")
    if follow is not None and not (0 <= follow[0] < num_tokens and 0 <= follow[1] < width):
        raise ValueError(f"follow={follow} is no number of the result, of shape {tuple(result.shape)}.")
    most = COLUMNS if one.shape[1] + 2 * width <= MOST_COLUMNS else 5
    if follow is not None and (follow[0] >= ROWS or follow[1] >= most or one.shape[1] > most):
        raise ValueError(f"follow={follow} lies outside the part that is drawn, {ROWS} by {most}: choose another.")

    def by_head(row: int, column: int) -> str:
        return PLAIN if num_heads is None else head_color(column // (width // num_heads))

    heads = [f"head {column // (width // num_heads)}" for column in range(width)] if num_heads else []
    blocks = [
        block(one, names[0], rows=words, most=most),
        block(two, names[1], columns=heads, color=by_head, most=most),
        block(result, names[2], rows=words, columns=heads, color=by_head, most=most),
    ]
    if follow is not None:
        _outline(blocks, follow, one.shape[1])
    middle = 38 + min(num_tokens, ROWS) * (HIGH + 2) / 2 + 5
    drawing = Drawing()
    drawing.text(0, 16, title or f"{names[0]} @ {names[1]} = {names[2]}", size=16, bold=True)
    drawing.place(beside([blocks[0][0], "@", blocks[1][0], "=", blocks[2][0]], middle), 0, 34)
    said = f"{names[0]} {tuple(one.shape)} times {names[1]} {tuple(two.shape)} gives {names[2]} {tuple(result.shape)}."
    if num_heads:
        said += f" Columns {', '.join(_stretches(width, num_heads))}: each head has columns of its own."
    if follow is not None:
        row, column = follow
        terms = " + ".join(
            f"{two_digits(a)} · {two_digits(b)}"
            for a, b in zip(one[row].tolist(), two[:, column].tolist(), strict=True)
        )
        sum_of = f"{terms} = {two_digits(float(result[row, column]))}".replace("-", "−")
        drawing.text(0, drawing.height + 22, f"The outlined number, {words[row]}: {sum_of}", color=FOLLOW)
        drawing.text(0, drawing.height + 14, "(all rounded to two decimals)", size=11, color=QUIET)
        said += f" Row {words[row]}, column {column}: {sum_of}, rounded to two decimals."
    if left.dim() == 3 and len(left) > 1:
        said += f" Sample 0 of {len(left)} is drawn."
    caption = "Each number of the result is one row of the left times one column of the right."
    return Picture(svg=drawing.svg(), words=said, caption=caption)


def three_projections(
    x: Tensor, module: nn.Module, words: Sequence[str] | None = None, *, title: str | None = None
) -> Picture:
    """Draw how one input becomes queries, keys and values: three projections of a real module.

    Args:
        x: (batch, token, d_in); the first sample is drawn.
        module: any with three `nn.Linear` modules q_proj, k_proj and v_proj.
        words: labels of the tokens.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError, TypeError: a module without these projections, an x that isn't (batch, token, d_in).
    """
    missing = [
        name for name in ("q_proj", "k_proj", "v_proj") if not isinstance(getattr(module, name, None), nn.Linear)
    ]
    if missing:
        raise TypeError(
            f"module has no nn.Linear called {missing[0]}: give an attention module with q_, k_ and v_proj."
        )
    tokens = plain_numbers(x, "x", "token d_in")
    words = check_words(words, len(tokens))
    drawn, _ = block(tokens, "x", rows=words)
    drawing = Drawing()
    drawing.text(0, 16, title or "One input, three projections", size=16, bold=True)
    drawing.place(drawn, 0, 34)
    x_of_results = drawing.width + 130
    y = 34.0
    said = [f"x {tuple(tokens.shape)} is projected three times."]
    for name, role in (("q_proj", "queries"), ("k_proj", "keys"), ("v_proj", "values")):
        with torch.no_grad():
            result = getattr(module, name)(x[:1] if x.dim() == 3 else x)
        result = plain_numbers(result, role, "token width")
        num_heads = _heads_of(module, role, result.shape[1])
        per_head = result.shape[1] // num_heads
        heads = [f"head {column // per_head}" for column in range(result.shape[1])] if num_heads > 1 else []
        shared = getattr(module, "num_heads", 1) if num_heads == 1 and role != "queries" else 1
        note = f"{tuple(result.shape)}" + (f", one for all {shared} heads" if shared > 1 else "")

        def color(_: int, column: int, per_head: int = per_head, num_heads: int = num_heads) -> str:
            return head_color(column // per_head) if num_heads > 1 else PLAIN

        table, _ = block(result, role, rows=words, columns=heads, color=color, note=note)
        drawing.arrow(drawn.width + 16, y + 38 + HIGH, 100, name)
        drawing.place(table, x_of_results, y)
        y += table.height + 14
        said.append(f"{name} gives {role} {note}" + (f", {num_heads} heads side by side." if num_heads > 1 else "."))
    caption = "The same tokens in three roles: what they look for, what they are found by, what they give."
    return Picture(svg=drawing.svg(), words=" ".join(said), caption=caption)


def check_words(words: Sequence[str] | None, num_tokens: int) -> list[str]:
    """Labels of the tokens, made up if there are none."""
    if words is None:
        return [f"token {i}" for i in range(num_tokens)]
    if len(words) != num_tokens:
        raise ValueError(f"words has {len(words)} labels for {num_tokens} tokens: give one a token.")
    return [str(word) for word in words]


def _heads_of(module: nn.Module, role: str, width: int) -> int:
    head_dim = getattr(module, "head_dim", width)
    if role == "values":
        head_dim = getattr(module, "value_dim", head_dim)
    return width // head_dim if head_dim and width % head_dim == 0 else 1


def _stretches(width: int, num_heads: int) -> list[str]:
    size = width // num_heads
    return [f"{head * size} to {(head + 1) * size - 1} are head {head}" for head in range(num_heads)]


def _outline(blocks: Sequence[tuple[Drawing, float]], follow: tuple[int, int], depth: int) -> None:
    """Outline the row of the left, the column of the right, and the number that they make."""
    row, column = follow
    (left, at_left), (right, at_right), (result, at_result) = blocks
    left.outline(at_left, 38 + row * (HIGH + 2), depth * (WIDE + 2) - 2, HIGH)
    right.outline(at_right + column * (WIDE + 2), 38, WIDE, depth * (HIGH + 2) - 2)
    result.outline(at_result + column * (WIDE + 2), 38 + row * (HIGH + 2), WIDE, HIGH)
