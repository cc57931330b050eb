"""In training, dropout must come after softmax."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..examination import Examination
from ..labels import NOTHING
from ..report import Finding
from ..trace import write_down
from .pipeline import softmaxes

NOBODYS = {"nan": math.nan, "posinf": math.inf, "neginf": -math.inf}  # changes nothing, and nobody writes it


class _Dropped(TorchFunctionMode):
    """Turns every dropout into an operation that changes nothing, and notes what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func in (F.dropout, torch.dropout, F.alpha_dropout, F.dropout1d, F.dropout2d):
            self.given.append(args[0] if args else kwargs["input"])
            return torch.nan_to_num(self.given[-1], **NOBODYS)
        return func(*args, **kwargs)


def check_dropout_place(examination: Examination) -> Iterator[Finding]:
    """In training, dropout must come after softmax."""
    patient = examination.patient
    if not isinstance(patient.original, nn.Module):
        return
    code = patient.copy(torch.float64, training=True)
    dropped = _Dropped()

    def run(x: Tensor) -> Any:
        with dropped:
            return patient.call(code, x)

    trace, result = write_down(run, examination.x, patient.examiner)
    if isinstance(result, Exception) or trace.output is None or not dropped.given:
        return
    trained = Examination(
        patient, examination.given, examination.x, examination.causal, examination.num_heads,
        examination.num_kv_heads, examination.keep, trace, result, examination.free,
    )  # fmt: skip
    if trained.anatomy is None or not trained.anatomy.meetings or not trained.anatomy.mixes:
        return
    soft = softmaxes(trained)
    if not soft:
        return
    meeting = min(m.operation.number for m in trained.anatomy.meetings)
    way = trace.ancestors([soft[0].inputs[0]])
    for operation in trace.operations:
        ours = operation.name == "nan_to_num" and operation.args[2:] == (math.inf, -math.inf)
        scored = (
            (trained.anatomy.score_labels[operation.outputs[0].number] != NOTHING).any() if operation.outputs else False
        )
        if ours and operation.number > meeting and operation.number in way and scored:
            yield Finding.named(
                "dropout-before-softmax",
                "in training, dropout is given scores; softmax comes after it",
                operation.where,
            )
            return
