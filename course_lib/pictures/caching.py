"""The cache picture: what is kept from step to step while a model writes, and what is asked once and forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from course_lib.attention import attend

from .drawing import CELL, PLAIN, QUIET, STEP, Drawing, head_color, stack, text_width
from .picture import Picture
from .products import check_words
from .sharing import check_modules, num_kv_heads

MOST_TOKENS, MOST_HEADS = 12, 8


def cache(
    modules: Mapping[str, nn.Module],
    x: Tensor,
    words: Sequence[str] | None = None,
    *,
    bytes_per_number: int = 2,
    title: str | None = None,
) -> Picture:
    """Draw the keys and values that are kept for each module when the last token of x comes in.

    That the cache changes nothing is checked first: the last token's output, computed from kept keys and values with
    one query, must equal its output when all tokens are computed at once, in 64 bits.

    Args:
        modules: name -> module of the course's forms; the first is what the others are compared with.
        x: (batch, token, d_in); the last token is the new one.
        words: labels of the tokens.
        bytes_per_number: 2 for 16-bit numbers.
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError: no module, one token only, words that don't fit, or a module for which the cache does change
            the output (one that isn't causal).
        TypeError: a module of another make.
    """
    check_modules(modules, x)
    words = check_words(words, x.shape[1])
    first_bytes = None
    panels, said = [], []
    for name, module in modules.items():
        _check_that_it_changes_nothing(name, module, x)
        keys, values = _kept(module, x)
        token_bytes = (keys[0, :, 0].numel() + values[0, :, 0].numel()) * bytes_per_number
        first_bytes = first_bytes or token_bytes
        share = "" if token_bytes == first_bytes else f", {token_bytes / first_bytes:.3g} of {next(iter(modules))}"
        amount = f"{token_bytes:,} bytes a token, {token_bytes * x.shape[1]:,} for {x.shape[1]} tokens{share}"
        panels.append(_draw(name, keys, values, words, amount))
        said.append(f"{name}: heads of keys {keys.shape[1]}, of values {values.shape[1]}; {amount}.")
    drawing = Drawing()
    drawing.text(0, 16, title or "What a model keeps while it writes", size=16, bold=True)
    note = f"Kept from earlier steps: all but “{words[-1]}”, which is new; its query is asked once and forgotten."
    drawing.text(0, 36, note, color=QUIET)
    drawing.place(stack(panels, gap=22), 0, 56)
    caption = "The last token's output from the cache equals its output from all tokens at once: checked in 64 bits."
    return Picture(
        svg=drawing.svg(), words=" ".join([f"{len(words)} tokens, the last one new.", *said]), caption=caption
    )


def _kept(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values by head, (batch, kv head, token, width), as a cache holds them."""
    batch, num_tokens, _ = x.shape
    heads = num_kv_heads(module)
    with torch.no_grad():
        keys, values = (
            projection(x).view(batch, num_tokens, heads, -1).transpose(1, 2)
            for projection in (module.k_proj, module.v_proj)
        )
    return keys, values


def _check_that_it_changes_nothing(name: str, module: nn.Module, x: Tensor) -> None:
    state = {key: value.double() for key, value in module.state_dict().items()}
    x = x.detach().double()

    def run(function: nn.Module, *args: Tensor) -> Tensor:
        return torch.func.functional_call(function, state, args)

    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            at_once = run(module, x)[:, -1]
    finally:
        module.train(training)

    def linear(part: str, value: Tensor) -> Tensor:
        return nn.functional.linear(value, state[f"{part}.weight"], state.get(f"{part}.bias"))

    batch, num_tokens, _ = x.shape
    heads = num_kv_heads(module)
    queries = linear("q_proj", x[:, -1:]).view(batch, 1, module.num_heads, -1).transpose(1, 2)
    keys, values = (linear(part, x).view(batch, num_tokens, heads, -1).transpose(1, 2) for part in ("k_proj", "v_proj"))
    context, _ = attend(queries, keys, values)
    output = context.transpose(1, 2).reshape(batch, 1, -1)
    if "out_proj.weight" in state:
        output = linear("out_proj", output)
    if not torch.allclose(output[:, 0], at_once, rtol=0, atol=1e-9):
        difference = (output[:, 0] - at_once).abs().max().item()
        raise ValueError(
            f"module {name!r} gives another output with a cache (by {difference:.2g}), so nothing can be kept for it: "
            "give a causal module."
        )


def _draw(name: str, keys: Tensor, values: Tensor, words: Sequence[str], amount: str) -> Drawing:
    drawing = Drawing()
    num_tokens = len(words)
    tokens = list(range(num_tokens)) if num_tokens <= MOST_TOKENS else [*range(MOST_TOKENS - 1), num_tokens - 1]
    heads = min(keys.shape[1], MOST_HEADS)
    drawing.text(0, 13, name, size=14, bold=True)
    part = []
    if heads < keys.shape[1]:
        part.append(f"{heads} of {keys.shape[1]} heads")
    if len(tokens) < num_tokens:
        part.append(f"{len(tokens)} of {num_tokens} tokens")
    drawing.text(150, 13, amount + (f" (drawn: {', '.join(part)})" if part else ""), color=QUIET)
    wide = max(CELL, *(round(text_width(words[token], 11)) + 8 for token in tokens))
    y = 40
    left = 62
    for index, token in enumerate(tokens):
        drawing.text(left + index * (wide + 2) + wide / 2, 34, words[token], size=11, anchor="middle")
    for role in ("keys", "values"):
        for head in range(heads):
            color = head_color(head) if keys.shape[1] > 1 else PLAIN
            row = [(left + index * (wide + 2), y) for index in range(len(tokens))]
            drawing.cells(row, color, width=wide, height=CELL - 8)
            drawing.text(left - 8, y + 12, f"{role} {head}", size=11, anchor="end")
            y += STEP - 8
        y += 4
    x = left + (len(tokens) - 1) * (wide + 2)
    drawing.outline(x - 1, 39, wide + 2, y - 44)
    drawing.text(x + wide + 10, 52, "new", size=11, bold=True)
    return drawing
