"""What each silent mistake does to a storyteller: trained with it, and put into one that was trained right."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from course_lib.mutations import built, inject
from course_lib.stories import Storyteller, with_attention

from .plain import PlainAttention
from .training import Measured, measured, trained

FORM = "llama"  # rotary positions, two kv heads for four heads, a cache
STEPS = 1200
RATES = (1.0, 0.5)
RIGHT, WITHOUT = "right", "without attention"
PLANTED = (  # by operators on the source
    "missing-scale",
    "wrong-scale",
    "softmax-wrong-axis",
    "double-softmax",
    "no-causal-mask",
    "mask-off-by-one",
    "mask-with-zero",
    "mask-after-softmax",
    "split-without-transpose",
    "merge-without-transpose",
    "kv-heads-tiled",
    "heads-share-scores",
    "scores-from-values",
    "projection-reused",
    "output-projection-missing",
)
ROTATED = "        queries = rotate(queries, start)\n        keys = rotate(keys, start)\n"
APPENDED = "keys, values = cache.append(keys, values)"
EDITED = {  # mistake -> what stands in the place of what
    "rotary-unused": (ROTATED, ""),
    "rotary-on-values": (ROTATED, ROTATED + "        values = rotate(values, start)\n"),
}
IN_CACHE = {  # the same for those that show only where a cache is used, so that nothing is trained with them
    "positions-restart-in-cache": (ROTATED, ROTATED.replace("start", "0")),
    "causal-top-left": ("triu(diagonal=1 + start)", "triu(diagonal=1)"),
    "stale-cache": (APPENDED, f"{APPENDED}\n            cache.rewind(start or cache.length)"),  # as after the prompt
}
MISTAKES = (RIGHT, WITHOUT, *PLANTED, *EDITED, *IN_CACHE)


class NoAttention(nn.Module):
    """What is left without attention: nothing comes from other words."""

    def __init__(self, d_in: int, d_out: int, num_heads: int) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Zeros, (batch, token, width)."""
        return 0.0 * x


def attention_with(mistake: str) -> Any:
    """The class of attention with a mistake."""
    if mistake == RIGHT:
        return PlainAttention
    if mistake == WITHOUT:
        return NoAttention
    if mistake in PLANTED:
        return inject(PlainAttention, mistake).code
    source = inspect.getsource(PlainAttention)
    old, new = (EDITED | IN_CACHE)[mistake]
    if source.count(old) != 1:
        raise ValueError(
            f"{old!r} is found {source.count(old)} times in PlainAttention, for {mistake}: change the table"
        )
    return built(source.replace(old, new), PlainAttention)


def trained_with(mistake: str, seed: int, rate: float) -> tuple[Storyteller, float]:
    """A storyteller that was trained with a mistake, and its training loss."""
    return trained(FORM, seed=seed, attention=attention_with(mistake), rate=rate, steps=STEPS)


def put_into(right: Storyteller, mistake: str) -> Measured:
    """What a mistake does in a storyteller that was trained without it."""
    if mistake == WITHOUT:
        model = right.like(NoAttention)
        model.load_state_dict(right.state_dict(), strict=False)
    else:
        model = with_attention(right, attention_with(mistake))
    return measured(model, use_cache=mistake in IN_CACHE)
