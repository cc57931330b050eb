"""Other numbers of tokens and samples."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..examination import Examination
from ..lines import of_loop
from ..probes import other_sizes
from ..report import Finding
from ..trace import Operation


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
            yield Finding.named(mistake, words, _fixing(examination, name) or of_loop(line, _last(examination)) or line)


def _last(examination: Examination) -> Operation | None:
    return examination.trace.operations[-1] if examination.trace.operations else None


def _fixing(examination: Examination, name: str) -> str | None:
    """The first operation that has the old number of samples or tokens in a run with another one."""
    patient, x = examination.patient, examination.x
    axis = ("samples", "tokens").index(name)
    old = x.shape[axis]
    for new in (old - 1, old + 1, 1):
        if new < 1 or new == old:
            continue
        other = torch.cat([x, x.flip(axis)], dim=axis).narrow(axis, 0, new)
        trace, _ = patient.trace(other)
        known = trace.of_x()
        for operation in trace.operations:
            if not operation.outputs or operation.number not in known:
                continue
            shapes = [tuple(v.tensor.shape) for v in operation.inputs if v.made_by in known or v is trace.x]
            out = tuple(operation.outputs[0].tensor.shape)
            if shapes and len(out) > 2 and axis == 0 and out[0] == old and all(s and s[0] == new for s in shapes):
                return operation.where
    return None
