"""Weights that make one mistake on purpose, on the patient's own scores: what its weights are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from .examination import Examination
from .report import Finding
from .rules.fit import fit
from .rules.weights import weights_of

Twin = Callable[[Tensor, Tensor], Tensor]  # scores, keep -> weights, all (batch, head, query, key)


def _softmax(scores: Tensor, keep: Tensor, *, fill: float = -torch.inf, dim: int = -1) -> Tensor:
    return scores.masked_fill(~keep, fill).softmax(dim).nan_to_num()


def _all(keep: Tensor) -> Tensor:
    return torch.ones_like(keep)


# id -> what the weights then are, in words, and how they come about; several where there are several ways
TWINS: dict[str, tuple[tuple[str, Twin], ...]] = {
    "no-causal-mask": (("softmax without any mask", lambda s, keep: _softmax(s, _all(keep))),),
    "mask-discarded": (("softmax without any mask", lambda s, keep: _softmax(s, _all(keep))),),
    "mask-inverted": (("softmax over exactly the hidden tokens", lambda s, keep: _softmax(s, ~keep)),),
    "mask-off-by-one": (
        ("softmax with the diagonal one step too far", lambda s, keep: _softmax(s, _all(keep).tril(1))),
        ("softmax with the diagonal hidden", lambda s, keep: _softmax(s, _all(keep).tril(-1))),
    ),
    "mask-transposed": (("softmax with the mask transposed", lambda s, keep: _softmax(s, keep.mT)),),
    "mask-after-softmax": (("softmax of all scores, masked afterwards", lambda s, keep: s.softmax(-1) * keep),),
    "mask-with-zero": (("softmax with 0 for hidden scores", lambda s, keep: _softmax(s, keep, fill=0.0)),),
    "softmax-wrong-axis": (
        ("softmax over the queries", lambda s, keep: _softmax(s, keep, dim=2)),
        ("softmax over the heads", lambda s, keep: _softmax(s, keep, dim=1)),
        ("softmax over the samples", lambda s, keep: _softmax(s, keep, dim=0)),
    ),
    "double-softmax": (
        ("softmax of softmax, masked both times", lambda s, keep: _softmax(_softmax(s, keep), keep)),
        ("softmax of softmax, masked the first time", lambda s, keep: _softmax(s, keep).softmax(-1)),
        ("softmax of softmax, masked the second time", lambda s, keep: _softmax(s.softmax(-1), keep)),
    ),
    "no-softmax": (("the scores themselves", lambda s, keep: s * keep),),
}
DIGITS = 7


def compared(examination: Examination, finding: Finding) -> Finding:
    """Add to the evidence which twin the patient's weights are equal to, if one is.

    Args:
        examination: of the patient.
        finding: what a rule found.

    Returns:
        The finding, with one more clause where a twin agrees to seven digits in every weight.
    """
    if finding.mistake not in TWINS or examination.flow is None:
        return finding
    weights, raw, keep = weights_of(examination), examination.flow.raw, examination.expected
    if raw.isnan().any():
        return finding
    for words, twin in TWINS[finding.mistake]:
        for scale in _scales(examination, raw, weights):
            apart = float((twin(raw * scale, keep) - weights).abs().max())
            if apart < 10.0**-DIGITS:
                return replace(finding, evidence=f"{finding.evidence}; your weights equal {words}, to {DIGITS} digits")
    return finding


def _scales(examination: Examination, raw: Tensor, weights: Tensor) -> list[float]:
    """What the scores may have been multiplied with: nothing more, the right factor, or what fits best."""
    found = fit(raw, weights, examination.expected & (weights > 0))
    fitted = [] if found is None else [float(found[0])]
    return [1.0, examination.anatomy.head_dim**-0.5, *fitted]
