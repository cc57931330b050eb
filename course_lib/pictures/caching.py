"""The cache picture: what is kept from step to step while a model writes, and what is asked once and forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

import torch
from torch import Tensor, nn

from course_lib.attention import attend

from .drawing import CELL, LINE, QUIET, Drawing, head_color, stack, text_width
from .memory.numbers import clip
from .picture import Picture
from .products import check_words
from .readers import check_modules, keys_and_values, twin_of
from .wording import listed

MOST_TOKENS, MOST_HEADS = 10, 8
WIDTH = 860  # pixels: what a notebook shows without shrinking it
FLAT = CELL - 8  # pixels, a cell's height
WIDEST = 44  # pixels, of a column
LEFT, TOP = 66, 42  # pixels before the first column and above the first row


def cache(
    modules: Mapping[str, nn.Module],
    x: Tensor,
    words: Sequence[str] | None = None,
    *,
    bytes_per_number: int = 2,
    title: str | None = None,
) -> Picture:
    """Draw the keys and values that are kept for each module when the last token of x comes in.

    That the cache changes nothing is checked first: the last token's output, computed by `attend` from kept keys and
    values with its one query, must equal its output when all tokens are computed at once, in 64 bits.

    Args:
        modules: name -> module of the course's forms; the first is what the others are compared with.
        x: (batch, token, d_in); the last token is the new one. The cache of one sample is drawn.
        words: labels of the tokens; numbers if None.
        bytes_per_number: 2 for 16-bit numbers.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError: no module, one token only, words that don't fit, bytes below 1, or a module whose last output isn't
            what `attend` makes of its queries, keys and values.
        TypeError: a module of another make, bytes that aren't a whole number.

    Example:
        >>> print(cache({"shared": MultiQueryAttention(3, 4, num_heads=2)}, dream_big().batch).words.splitlines()[-1])
        shared keeps 1 head of keys and values: 8 bytes a token, 48 bytes for 6 tokens.
    """
    check_modules(modules, x)
    words = check_words(words, x.shape[1])
    if not isinstance(bytes_per_number, int) or isinstance(bytes_per_number, bool):
        raise TypeError(f"bytes_per_number must be a whole number, got {bytes_per_number!r}.")
    if bytes_per_number < 1:
        raise ValueError(f"bytes_per_number must be at least 1, got {bytes_per_number}: give 2 for 16-bit numbers.")
    first_name, first_bytes = next(iter(modules)), 0
    panels, said = [], []
    for name, module in modules.items():
        keys, values = keys_and_values(module, x)
        _check_that_it_changes_nothing(name, module, x, keys, values)
        token_bytes = (keys[0, :, 0].numel() + values[0, :, 0].numel()) * bytes_per_number
        first_bytes = first_bytes or token_bytes
        amount = f"{token_bytes:,} bytes a token, {token_bytes * len(words):,} bytes for {len(words)} tokens"
        amount += f", {_share(token_bytes, first_bytes)} {first_name}" if name != first_name else ""
        heads = keys.shape[1]
        amount += _part(heads, len(words))
        panels.append(_draw(name, heads, words, amount, module.num_heads))
        said.append(f"{name} keeps {heads} head{'s' * (heads > 1)} of keys and values: {amount}.")
    new = words[-1]
    drawing = Drawing()
    drawing.text(0, 16, title or "What a model keeps while it writes", size=16, bold=True)
    note = f"“{clip(new, 150, 12)}” comes in: its keys and values join the others, its queries are used once."
    drawing.text(0, 36, note, color=QUIET)
    drawing.place(stack(panels, gap=24), 0, 58)
    kept = f"While “{new}” is computed, the keys and values of the {len(words) - 1} tokens before it are kept, those of"
    kept += f" “{new}” are new. Its queries are asked once, then forgotten."
    caption = f"The output of “{new}” from the kept keys and values equals its output from all tokens at once: "
    caption += "checked in 64 bits."
    return Picture(svg=drawing.svg(), words="\n".join([kept, *said]), caption=caption)


def _share(part: int, whole: int) -> str:
    """How much of the first module's cache it is: "1/4 of", "0.317 of", "as much as"."""
    ratio = Fraction(part, whole)
    if ratio == 1:
        return "as much as"
    simple = ratio.numerator == 1 or ratio.denominator <= 12
    return f"{ratio if simple else format(float(ratio), '.3g')} of"


def _part(heads: int, num_tokens: int) -> str:
    """What of it is drawn, where that isn't all."""
    part = [f"the first {MOST_HEADS} heads"] if heads > MOST_HEADS else []
    part += [f"the first {MOST_TOKENS - 1} tokens and the last"] if num_tokens > MOST_TOKENS else []
    return f" (drawn: {listed(part)})" if part else ""


def _check_that_it_changes_nothing(name: str, module: nn.Module, x: Tensor, keys: Tensor, values: Tensor) -> None:
    twin = twin_of(module)
    batch, _, _ = x.shape
    with torch.no_grad():
        at_once = twin(x.double())[:, -1]  # (batch, d_out)
        queries = twin.q_proj(x[:, -1:].double()).view(batch, 1, module.num_heads, -1).transpose(1, 2)  # (b, h, 1, d)
        context, _ = attend(queries, keys, values)
        output = context.transpose(1, 2).reshape(batch, -1)  # (b, h, 1, d) -> (b, h * d)
        if getattr(twin, "out_proj", None) is not None:
            output = twin.out_proj(output)
    try:
        torch.testing.assert_close(output, at_once)
    except AssertionError as error:
        raise ValueError(
            f"module {name!r} gives its last token another output than attend() makes of its queries, keys and values, "
            "so a cache of them would change it: give one of the course's forms."
        ) from error


def _draw(name: str, heads: int, words: Sequence[str], amount: str, num_heads: int) -> Drawing:
    """One module: a row a head of keys, a row a head of values, a column a token, and the one query of the new one."""
    drawing = Drawing()
    num_tokens = len(words)
    tokens = list(range(num_tokens)) if num_tokens <= MOST_TOKENS else [*range(MOST_TOKENS - 1), num_tokens - 1]
    drawn = min(heads, MOST_HEADS)
    name = clip(name, 200, 14, bold=True)
    drawing.text(0, 13, name, size=14, bold=True)
    after = max(150, ceil(text_width(name, 14, bold=True)) + 16)
    drawing.text(after, 13, clip(amount, WIDTH - after, 12), color=QUIET)
    labels = [clip(words[token], WIDEST) for token in tokens]
    wide = max(CELL + 8, *(ceil(text_width(label, 11)) for label in labels))
    columns = [LEFT + index * (wide + 2) for index in range(len(tokens))]
    if len(tokens) < num_tokens:
        columns[-1] += 18
        drawing.text(columns[-1] - 10, TOP - 6, "…", size=11, anchor="middle")
    for x, label in zip(columns, labels, strict=True):
        drawing.text(x + wide / 2, TOP - 6, label, size=11, anchor="middle")
    y = TOP
    for role in ("keys", "values"):
        for head in range(drawn):
            drawing.cells([(x, y) for x in columns], head_color(head), width=wide, height=FLAT)
            drawing.text(LEFT - 8, y + 12, f"{role} {head}", size=11, anchor="end")
            y += FLAT + 2
        y += 4
    new = columns[-1]
    drawing.outline(new - 1, TOP - 2, wide + 2, y - TOP - 2)
    drawing.lines([(LEFT, y + 4, new - 4, y + 4)])
    drawing.text((LEFT + new - 2) / 2, y + 18, "kept", size=11, anchor="middle")
    drawing.text(new + wide / 2, y + 18, "new", size=11, bold=True, anchor="middle")
    side = new + wide + 24
    drawing.outline(side, TOP, wide, FLAT, color=LINE, dashed=True)
    drawing.text(side + wide + 8, TOP + 12, f"{num_heads} queries of the new token:", size=11)
    drawing.text(side + wide + 8, TOP + 28, "asked once, then forgotten", size=11, color=QUIET)
    return drawing
