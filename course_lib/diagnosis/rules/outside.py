"""What can be said of code that can't be traced: only what its inputs and outputs show."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..examination import Examination, expected_keep
from ..probes import influence, influence_of_samples
from ..report import Finding

SMALL = 1e-9


def check(examination: Examination) -> Iterator[Finding]:
    """Change tokens and samples one at a time and see whose output moves."""
    patient, x = examination.patient, examination.x
    seen = influence(patient, x) > SMALL  # (token of the output, token of the input)
    expected = expected_keep(examination.causal, examination.keep, len(x), 1, x.shape[1])[:, 0].any(0)
    stray = seen & ~expected & ~torch.eye(len(seen), dtype=torch.bool)
    if stray.any():
        token, other = stray.nonzero()[0].tolist()
        words = f"the output of token {token} moves when token {other} changes"
        triangle = examination.causal and torch.equal(seen, torch.ones_like(seen))
        if triangle:
            yield Finding.named("no-causal-mask", words)
        else:
            yield Finding(None, words, None, "It differs from attention in this way: hidden tokens are seen.")
    if len(x) > 1:
        mixed = influence_of_samples(patient, x) > SMALL
        mixed.fill_diagonal_(False)
        if mixed.any():
            sample, other = mixed.nonzero()[0].tolist()
            yield Finding.named("batch-mixed", f"the output of sample {sample} moves when sample {other} changes")
