"""Other numbers of tokens and samples."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..examination import Examination
from ..lines import of_loop
from ..probes import other_sizes
from ..report import Finding


def check_sizes(examination: Examination) -> Iterator[Finding]:
    """Other numbers of tokens and samples must work; a longest length is nobody's mistake."""
    meetings = examination.anatomy.meetings
    foreign = meetings and not any(one.operation.number in examination.alive for one in meetings)
    if not examination.free or foreign:  # a told mask, or weights from elsewhere, have the sizes that they have
        return
    patient, x = examination.patient, examination.x
    failed = other_sizes(patient, x)
    for name, mistake in (("tokens", "fixed-length"), ("samples", "fixed-batch")):
        if name in failed:
            words, line = failed[name]
            fixing = _fixing(examination) if name == "samples" else None
            yield Finding.named(mistake, words, fixing or of_loop(line, examination.trace.operations[-1]) or line)


def _fixing(examination: Examination) -> str | None:
    """The first operation that has the old number of samples in a run with another one."""
    patient, x = examination.patient, examination.x
    old = len(x)
    for new in (old - 1, old + 1, 1):
        if new in (0, old):
            continue
        trace, _ = patient.trace(torch.cat([x, x.flip(0)])[:new])
        known = trace.of_x()
        for operation in trace.operations:
            if not operation.outputs or operation.number not in known:
                continue
            shapes = [tuple(v.tensor.shape) for v in operation.inputs if v.made_by in known or v is trace.x]
            out = tuple(operation.outputs[0].tensor.shape)
            if shapes and len(out) > 2 and out[0] == old and all(s and s[0] == new for s in shapes):
                return operation.where
    return None
