"""Compare the window that the weights show with the one that was given."""

from dataclasses import replace

import torch
from torch import Tensor

from course_lib.tracing import Operation

from .attention import Attention


def other_window(attention: Attention) -> tuple[int, int] | None:
    """Return how many tokens each query sees and how many it should, if both are windows and differ; else None."""
    window = _intended(attention)
    if window is None:
        return None
    for width in range(1, attention.seen.shape[-1] + 1):
        if width != window and torch.equal(attention.seen, _seen_by(attention, width)):
            return width, window
    return _but_for_the_start(attention, window) if attention.options.causal else _lopsided(attention, window)


def _but_for_the_start(attention: Attention, window: int) -> tuple[int, int] | None:
    """Return the width that all whole windows have, if those that the first token cuts off hide even more."""
    whole, seen = slice(window - 1, None), attention.seen
    strays = seen & ~attention.expected & ~seen.all(-1, keepdim=True)  # a row that sees nothing may be uniform
    if seen.shape[-1] < window + 1 or strays[:, :, : window - 1].any():
        return None
    for width in (window - 1, window + 1):
        if torch.equal(seen[:, :, whole], _seen_by(attention, width)[:, :, whole]):
            return width, window
    return None


def _lopsided(attention: Attention, window: int) -> tuple[int, int] | None:
    """Return the width of the side, of earlier or of later tokens, on which a window differs, and that of the other."""
    for width in (window - 1, window + 1):
        both = _seen_by(attention, width), _seen_by(attention, window)
        for earlier, later in (both, both[::-1]):
            if torch.equal(attention.seen, torch.where(torch.ones_like(earlier).tril(), earlier, later)):
                return width, window
    return None


def unused_mask(attention: Attention) -> Operation | None:
    """Return the first operation that makes a window's mask, or that of `keep`, which nothing reads; None without."""
    if attention.options.window is None and attention.options.keep is None:
        return None
    expected, num_tokens = attention.expected[0, 0], attention.expected.shape[-1]
    for operation in attention.trace.operations:
        made = operation.outputs[0].tensor if operation.outputs else None
        if made is None or operation.number in attention.run.live or not operation.where:
            continue
        if made.dtype == torch.bool and made.shape[-2:] == expected.shape:
            mask = made.reshape(-1, num_tokens, num_tokens)[0]
            if torch.equal(mask, expected) or torch.equal(~mask, expected):
                return operation
    return None


def _intended(attention: Attention) -> int | None:
    """Return the window that the caller gave, as a number or as a mask that is exactly such a band."""
    if attention.options.window is not None or attention.options.keep is None:
        return attention.options.window
    widths = range(1, attention.seen.shape[-1])
    return next((width for width in widths if torch.equal(attention.expected, _seen_by(attention, width))), None)


def _seen_by(attention: Attention, width: int) -> Tensor:
    options = replace(attention.options, keep=None, window=width)
    return options.expected_keep(*attention.seen.shape[:3]) & attention.present[..., None]
