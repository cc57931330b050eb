"""Compute reference weights with one deliberate mistake each from the code's own scores."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from .finding import Finding
from .measure.attention import Attention
from .measure.stages import Stages

Pattern = Callable[[Tensor, Tensor], Tensor]  # (scores, keep) -> weights, all (batch, head, query, key)


def _softmax(scores: Tensor, keep: Tensor, *, fill: float = -torch.inf, dim: int = -1) -> Tensor:
    return scores.masked_fill(~keep, fill).softmax(dim).nan_to_num()


# (ids, the reference weights in words, how they are computed)
REFERENCES: tuple[tuple[tuple[str, ...], str, Pattern], ...] = (
    (("no-causal-mask", "mask-discarded"), "softmax without any mask", lambda s, keep: s.softmax(-1)),
    (("mask-inverted",), "softmax over exactly the hidden tokens", lambda s, keep: _softmax(s, ~keep)),
    (("mask-off-by-one",), "softmax with the mask's edge one position too far right",
     lambda s, keep: _softmax(s, (keep | True).tril(1))),
    (("mask-off-by-one",), "softmax with each token hidden from itself",
     lambda s, keep: _softmax(s, (keep | True).tril(-1))),
    (("mask-transposed",), "softmax with the mask transposed", lambda s, keep: _softmax(s, keep.mT)),
    (("mask-after-softmax",), "softmax of all scores, masked afterwards", lambda s, keep: s.softmax(-1) * keep),
    (("mask-with-zero",), "softmax with 0 for hidden scores", lambda s, keep: _softmax(s, keep, fill=0.0)),
    (("softmax-wrong-axis",), "softmax over the queries", lambda s, keep: _softmax(s, keep, dim=2)),
    (("softmax-wrong-axis",), "softmax over the heads", lambda s, keep: _softmax(s, keep, dim=1)),
    (("softmax-wrong-axis",), "softmax over the samples", lambda s, keep: _softmax(s, keep, dim=0)),
    (("double-softmax",), "softmax of softmax, masked both times",
     lambda s, keep: _softmax(_softmax(s, keep), keep)),
    (("double-softmax",), "softmax of softmax, masked the first time", lambda s, keep: _softmax(s, keep).softmax(-1)),
    (("double-softmax",), "softmax of softmax, masked the second time", lambda s, keep: _softmax(s.softmax(-1), keep)),
    (("no-softmax",), "the scores themselves", lambda s, keep: s * keep),
)  # fmt: skip
DIGITS = 7


def add_pattern_evidence(finding: Finding, stages: Stages) -> Finding:
    """Add to a finding's evidence which reference, if any, equals the code's weights to seven digits."""
    attention = stages.reach(Attention)
    patterns = [(words, pattern) for mistakes, words, pattern in REFERENCES if finding.mistake in mistakes]
    if attention is None or not patterns or attention.scores.isnan().any():
        return finding
    scale, right = attention.fitted_scale, attention.structure.head_dim**-0.5
    # The scores may have been multiplied by nothing more, by the right factor, or by the factor that fits best.
    scales = [1.0, right, *([] if scale is None else [float(scale[0])])]
    for words, pattern in patterns:
        for factor in scales:
            apart = (pattern(attention.scores * factor, attention.expected) - attention.weights).abs().max()
            if float(apart) < 10.0**-DIGITS:
                return replace(finding, evidence=f"{finding.evidence}; your weights equal {words}, to {DIGITS} digits")
    return finding
