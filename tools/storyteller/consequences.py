"""What each silent mistake does to a storyteller: trained with it, and put into one that was trained right."""

import inspect
from functools import partial
from typing import Any

import torch
from torch import nn

from course_lib.mutations import built, inject
from course_lib.stories import Storyteller, with_attention

from .plain import PlainAttention
from .training import Measured, measured, trained

FORM, STEPS, RATES = "grouped-query", 1000, (1.0, 0.5)  # what is trained
WRITTEN = 40  # stories of each: without a cache they take their time
ROTARY_FORM, ROTARY_STEPS = "llama", 2000  # only for mistakes that are put into it
RIGHT, RIGHT_ROTARY, WITHOUT = "right", "right, with rotary positions", "without attention"
PLANTED = (  # by operators on the source
    "missing-scale",
    "softmax-wrong-axis",
    "double-softmax",
    "no-causal-mask",
    "mask-off-by-one",
    "mask-after-softmax",
    "split-without-transpose",
    "merge-without-transpose",
    "kv-heads-tiled",
    "heads-share-scores",
    "projection-reused",
    "output-projection-missing",
)
TRAINED_WITH = (RIGHT, WITHOUT, *PLANTED)
APPENDED = "keys, values = cache.append(keys, values)"
ROTATED = "queries, keys = rotate(queries, start), rotate(keys, start)"
EDITED = {  # mistake -> what stands in the place of what; these are only put into right models
    "rotary-unused": (ROTATED, "pass"),
    "rotary-on-values": (ROTATED, f"{ROTATED}\n            values = rotate(values, start)"),
    "positions-restart-in-cache": (ROTATED, ROTATED.replace("start", "0")),
    "causal-top-left": ("triu(diagonal=1 + start)", "triu(diagonal=1)"),
    "token-missing-from-cache": (APPENDED, f"{APPENDED}\n            cache.rewind(start or cache.length)"),
}
IN_CACHE = ("positions-restart-in-cache", "causal-top-left", "token-missing-from-cache")  # nothing else shows them


class NoAttention(nn.Module):
    """What is left without attention: nothing comes from other words."""

    def __init__(self, d_in: int, d_out: int, num_heads: int) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Zeros, (batch, token, width)."""
        return 0.0 * x


def attention_with(mistake: str, *, rotary: bool = False) -> Any:
    """What makes attention with a mistake."""
    return NoAttention if mistake == WITHOUT else partial(_class_with(mistake), rotary=rotary)


def _class_with(mistake: str) -> Any:
    if mistake == RIGHT:
        return PlainAttention
    if mistake in PLANTED:
        return inject(PlainAttention, mistake).code
    source = inspect.getsource(PlainAttention)
    old, new = EDITED[mistake]
    if source.count(old) != 1:
        raise ValueError(
            f"{old!r} is found {source.count(old)} times in PlainAttention, for {mistake}: change the table"
        )
    return built(source.replace(old, new), PlainAttention)


def trained_with(mistake: str, seed: int, rate: float) -> tuple[Storyteller, float]:
    """A storyteller that was trained with a mistake, or with none, and its training loss."""
    if mistake == RIGHT_ROTARY:
        return trained(ROTARY_FORM, seed=seed, rate=rate, steps=ROTARY_STEPS)
    return trained(FORM, seed=seed, attention=attention_with(mistake), rate=rate, steps=STEPS)


def put_into(right: Storyteller, mistake: str) -> Measured:
    """What a mistake does in a storyteller that was trained without it."""
    if mistake == WITHOUT:
        model = right.like(NoAttention)
        model.load_state_dict(right.state_dict(), strict=False)
    else:
        model = with_attention(right, attention_with(mistake, rotary=mistake in EDITED))
    return measured(model, count=WRITTEN, use_cache=mistake in IN_CACHE)
