"""The table of what goes wrong in the steps of attention."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .steps import RIGHT, Attention, masked


class WrongSteps:
    """Attention with one known mistake.

    Attributes:
        equals: What its result is, such as "attention without softmax".
        mistakes: Ids of the catalogue that have this effect; the code tells which of them it is.
        hint: A question, or None for the catalogue's.
        steps: The steps that are replaced: name -> what stands in its place.
    """

    def __init__(self, equals: str, mistakes: str = "", hint: str | None = None, **steps: Any) -> None:
        self.equals, self.mistakes, self.hint, self.steps = equals, tuple(mistakes.split()), hint, steps

    @property
    def attention(self) -> Attention:
        """All steps, the right ones and the replaced ones."""
        return replace(RIGHT, **self.steps)


def _full(keep: Tensor, diagonal: int | None = None) -> Tensor:
    """A mask that hides nothing, or what lies above a diagonal."""
    return torch.ones_like(keep) if diagonal is None else torch.ones_like(keep).tril(diagonal)


def _filled(fill: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, keep: masked(scores, keep, fill=fill)


def _added(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, keep: (scores + number * ~keep).softmax(-1)


SCALES = (
    WrongSteps("attention without the division by the root of head_dim", "missing-scale", scale=lambda s, t: 1.0),
    *(
        WrongSteps(f"attention with {what}", "wrong-scale", scale=scale)
        for what, scale in (
            ("scores divided by head_dim, not by its root", lambda s, t: 1 / s.head_dim),
            ("scores multiplied by the root of head_dim", lambda s, t: s.head_dim**0.5),
            ("scores divided by the root of d_out", lambda s, t: s.d_out**-0.5),
            ("scores divided by the root of d_in", lambda s, t: s.d_in**-0.5),
            ("scores divided by the root of num_heads", lambda s, t: s.num_heads**-0.5),
            ("scores divided by the root of the number of tokens", lambda s, t: t**-0.5),
            ("the mean of the products, scaled again", lambda s, t: s.head_dim**-1.5),
        )
    ),
)
OTHER_HEAD_DIM = WrongSteps(
    "attention with scores divided by the root of d_out // num_heads, which is not head_dim here",
    "wrong-scale",
    scale=lambda s, t: (s.d_out // s.num_heads) ** -0.5,
)
KV_SCALE = WrongSteps(
    "attention with scores divided by the root of num_kv_heads", "wrong-scale", scale=lambda s, t: s.num_kv_heads**-0.5
)
ROLES = (
    WrongSteps("attention scored with the values instead of the keys", "scores-from-values", roles=(0, 2, 2)),
    *(
        WrongSteps(f"attention {what}", "projection-reused", roles=roles)
        for what, roles in (
            ("whose weights are multiplied by the keys, not the values", (0, 1, 1)),
            ("that compares the queries with themselves", (0, 0, 2)),
            ("that compares the keys with themselves", (1, 1, 2)),
            ("whose weights are multiplied by the queries", (0, 1, 0)),
        )
    ),
    WrongSteps(
        "attention with queries and keys exchanged",
        hint="Which of the two stands on the left of the product?",
        roles=(1, 0, 2),
    ),
    WrongSteps(
        "attention with keys and values exchanged", hint="Which of the two do the weights multiply?", roles=(0, 2, 1)
    ),
)
SOFTMAX = (
    *(
        WrongSteps(
            f"attention with softmax over the {axis}",
            "softmax-wrong-axis",
            weigh=lambda s, k, dim=dim: masked(s, k, dim),
        )
        for axis, dim in (("queries", -2), ("heads", 1), ("batch", 0))
    ),
    WrongSteps("attention without softmax", "no-softmax", weigh=lambda s, k: s.masked_fill(~k, 0.0)),
    WrongSteps(
        "attention whose weights are transposed before they are multiplied by the values",
        "weights-transposed",
        "A row of the weights is one query. Which axis of the weights meets the tokens of the values?",
        weigh=lambda s, k: masked(s, k).mT,
    ),
    WrongSteps("attention with softmax taken twice", "double-softmax", weigh=lambda s, k: masked(s, k).softmax(-1)),
)
TWICE_UNDER_MASKS = (
    WrongSteps(
        "attention with softmax taken twice, masked both times",
        "double-softmax",
        weigh=lambda s, k: masked(masked(s, k), k),
    ),
    WrongSteps(
        "attention with softmax taken twice, masked the second time",
        "double-softmax",
        weigh=lambda s, k: masked(s.softmax(-1), k),
    ),
)
MASKS = (
    WrongSteps("attention without a mask", "no-causal-mask mask-discarded", weigh=lambda s, k: s.softmax(-1)),
    WrongSteps("attention to later tokens only", "mask-inverted", weigh=lambda s, k: masked(s, ~k)),
    WrongSteps(
        "attention under the transposed mask", "mask-transposed mask-inverted", weigh=lambda s, k: masked(s, k.mT)
    ),
    WrongSteps("attention that sees one token too many", "mask-off-by-one", weigh=lambda s, k: masked(s, _full(k, 1))),
    WrongSteps(
        "attention that hides each token from itself", "mask-off-by-one", weigh=lambda s, k: masked(s, _full(k, -1))
    ),
    WrongSteps("attention masked after softmax", "mask-after-softmax", weigh=lambda s, k: s.softmax(-1) * k),
    *(  # before 0: a wrong answer that was right for small scores
        WrongSteps(
            f"attention whose hidden scores are {fill:g}, or a number like it, which is not below all scores here",
            weigh=_filled(fill),
        )
        for fill in (-1e3, -1e4)
    ),
    WrongSteps("attention whose hidden scores are 0", "mask-with-zero", weigh=_filled(0.0)),
    WrongSteps("attention whose hidden scores are 1", "mask-with-zero", weigh=_filled(1.0)),
    *(
        WrongSteps(
            f"attention whose hidden scores are {fill}: softmax gives them weight beside scores as low",
            weigh=_filled(fill),
        )
        for fill in (-1, -5, -10, -20, -50, -100)
    ),
    *(
        WrongSteps(
            f"attention with {number} added to the hidden scores: a hidden score that was high keeps a weight",
            weigh=_added(number),
        )
        for number in (-20, -30, -50, -100)
    ),
)
NO_MASK = (
    WrongSteps(
        "attention under a causal mask; this task hides no token",
        hint="Which tokens may a token see here?",
        weigh=lambda s, k: masked(s, _full(k, 0)),
    ),
)
