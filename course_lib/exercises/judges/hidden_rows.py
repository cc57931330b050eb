"""Rows that may look at nothing, and weights that are dropped."""

from __future__ import annotations

import torch
from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


def _causal(num_tokens: int) -> Tensor:
    positions = torch.arange(num_tokens)
    return positions[:, None] >= positions


def _masked(scores: Tensor, keep: Tensor) -> Tensor:
    return torch.where(keep, scores, -torch.inf).softmax(-1)


def _safe(scores: Tensor, keep: Tensor) -> Tensor:
    return _masked(scores, keep).nan_to_num(0.0)


def _left_padded(batch: int, num_tokens: int) -> tuple[Tensor, Tensor]:
    """Scores, and a causal mask over samples whose padding stands on the left: 0, 1, 2 ... tokens of it."""
    padding = torch.arange(num_tokens) >= torch.arange(batch)[:, None]
    return numbers(batch, num_tokens, num_tokens, spread=2.0), _causal(num_tokens) & padding[:, None]


SAFE_WEIGHTS = FunctionJudge(
    reference=_safe,
    inputs=lambda: [_left_padded(3, 5), _left_padded(2, 4)],
    axes="batch query key",
    wrong=(
        Wrong("weights that are nan where a token may look at nothing", _masked, "nan-on-hidden-rows"),
        Wrong(
            "weights that are shared out evenly where a token may look at nothing: hidden tokens get some",
            lambda s, keep: s.masked_fill(~keep, -1e30).softmax(-1),
            hint="In a row where every score is the lowest number there is, what does softmax give?",
        ),
        Wrong("weights that were masked after softmax", lambda s, keep: s.softmax(-1) * keep, "mask-after-softmax"),
        Wrong("softmax of scores whose hidden ones are 0", lambda s, keep: (s * keep).softmax(-1), "mask-with-zero"),
        Wrong(
            "softmax of scores whose hidden ones are 0, zeroed afterwards",
            lambda s, keep: (s * keep).softmax(-1) * keep,
            "mask-with-zero",
        ),
        Wrong("weights of the hidden tokens only", lambda s, keep: _safe(s, ~keep), "mask-inverted"),
        Wrong("softmax without the mask", lambda s, keep: s.softmax(-1), "mask-discarded"),
        Wrong(
            "weights whose rows that see nothing look at the first token",
            lambda s, keep: torch.where(
                keep.any(-1, keepdim=True), _safe(s, keep), torch.eye(s.shape[-1], dtype=s.dtype)[0]
            ),
        ),
    ),
)


DROPPED_WEIGHTS = FunctionJudge(
    reference=lambda weights, drop, p, training: weights.masked_fill(drop, 0.0) / (1 - p) if training else weights,
    inputs=lambda: [
        (numbers(5, 7).softmax(-1), numbers(5, 7, seed=1) > 0.8, 0.2, True),
        (numbers(3, 4).softmax(-1), numbers(3, 4, seed=1) > 0.7, 0.4, True),
        (numbers(6, 4).softmax(-1), numbers(6, 4, seed=1) > 0.0, 0.4, False),
    ],
    axes="query key",
    wrong=(
        Wrong(
            "dropout that stays on in evaluation", lambda w, drop, p, training: w * ~drop / (1 - p), "dropout-at-eval"
        ),
        Wrong(
            "dropout that only zeroes: the sum gets smaller on average",
            lambda w, drop, p, training: w * ~drop if training else w,
            hint="If one weight in five goes, how much must the others grow, so that the sum stays on average?",
        ),
        Wrong(
            "dropout that zeroes, in evaluation too",
            lambda w, drop, p, training: w * ~drop,
            "dropout-at-eval",
        ),
        Wrong(
            "dropout whose survivors shrink by 1 - p instead of growing by 1 / (1 - p)",
            lambda w, drop, p, training: w * ~drop * (1 - p) if training else w,
            hint="Should what is left grow or shrink?",
        ),
        Wrong(
            "dropout that divides by p, the share that goes, instead of 1 - p, the share that stays",
            lambda w, drop, p, training: w * ~drop / p if training else w,
            hint="Which share of the weights survives?",
        ),
        Wrong(
            "weights that sum to 1 again in each row: dropout does not do that, it keeps the sum only on average",
            lambda w, drop, p, training: (w * ~drop) / (w * ~drop).sum(-1, keepdim=True) if training else w,
        ),
        Wrong(
            "the weights that should have gone: True in drop means dropped",
            lambda w, drop, p, training: w * drop / (1 - p) if training else w,
            "mask-inverted",
        ),
        Wrong("no dropout at all", lambda w, drop, p, training: w, hint="What happens to a weight where drop is True?"),
    ),
)
