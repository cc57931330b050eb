"""What two calls and the input tell: random numbers in evaluation, an input that was written to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..examination import Examination
from ..lines import attribute_line
from ..patient import PatientFailed
from ..probes import differs_from_call_to_call
from ..report import Finding

RANDOM = re.compile(r"dropout|bernoulli|rand|normal_|uniform_|multinomial")


def check_repeats(examination: Examination) -> Iterator[Finding]:
    """Two runs in evaluation must agree whatever random numbers there are."""
    try:
        apart = differs_from_call_to_call(examination.patient, examination.x) if examination.free else 0.0
    except PatientFailed:
        apart = 0.0
    drawn = examination.first(lambda op: bool(RANDOM.search(op.name)) and op.number in examination.alive)
    if apart > 1e-9 and drawn is not None:
        where = attribute_line(drawn, examination.patient.code, _hidden_dropout) or drawn.where
        yield Finding.named("dropout-at-eval", f"two runs in evaluation are up to {apart:.4f} apart", where)


def _hidden_dropout(value: Any) -> bool:
    """A plain list of modules, which eval() does not reach."""
    return isinstance(value, (list, tuple)) and any(isinstance(one, nn.Module) for one in value)


def check_input(examination: Examination) -> Iterator[Finding]:
    """x must be after the call what it was before."""
    trace = examination.trace
    writes = [op for op in trace.operations if op.in_place and op.outputs and op.outputs[0].storage == trace.x.storage]
    changed = [op for op in writes if not torch.equal(op.inputs[0].tensor, op.outputs[0].tensor)]
    if changed:
        before, after = changed[0].inputs[0].tensor, changed[0].outputs[0].tensor
        apart = float((before.double() - after.double()).abs().nan_to_num().max())
        yield Finding.named(
            "input-modified", f"`{changed[0].name}` writes into x, by up to {apart:.4f}", changed[0].where
        )
