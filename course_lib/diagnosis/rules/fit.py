"""The scale by which scores became weights, whatever else was added to them."""

from __future__ import annotations

import torch
from torch import Tensor


def fit(raw: Tensor, weights: Tensor, visible: Tensor) -> Tensor | None:
    """Find the scale by which scores became weights.

    log(weights) = scale * scores + what depends on query and key alone + a number for each row.

    Args:
        raw: (batch, head, query, key), products of queries and keys.
        weights: of the same shape.
        visible: which pairs to look at.

    Returns:
        (head,), or None where no scale fits, or no row has two visible keys.
    """
    usable = visible & (weights > 1e-200) & ~raw.isnan()
    logs = torch.where(usable, weights.clamp(min=1e-300).log(), 0.0)
    count = usable.sum(-1, keepdim=True)
    if not (count > 1).any():
        return None

    def centred(numbers: Tensor, used: Tensor) -> Tensor:
        numbers = torch.where(used, numbers, 0.0)
        mean = numbers.sum(-1, keepdim=True) / used.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(used & (used.sum(-1, keepdim=True) > 1), numbers - mean, 0.0)

    scores = torch.where(usable, raw, 0.0)
    # What does not depend on the tokens is the same in two samples: it goes with their difference.
    both = usable[:1] & usable[1:]
    for s, w in (
        (centred(scores, usable), centred(logs, usable)),
        (centred(scores[1:] - scores[:1], both), centred(logs[1:] - logs[:1], both)),
    ):
        power = (s * s).sum((0, 2, 3))
        if (power < 1e-18).any():
            continue
        scale = (s * w).sum((0, 2, 3)) / power
        error = (w - scale[:, None, None] * s).abs().amax((0, 2, 3))
        size = w.abs().amax((0, 2, 3)).clamp(min=1e-3)
        if float((error / size).max()) < 1e-5:
            return scale
    return None
