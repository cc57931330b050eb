"""The way from scores to shares: which operations are on it, which of them mask, which are a softmax."""

from __future__ import annotations

import torch

from ..examination import Examination
from ..labels import NOTHING
from ..trace import Operation

SOFTMAXES = ("_softmax", "_safe_softmax", "_log_softmax", "softmax", "log_softmax")
MASKS = ("masked_fill", "masked_fill_", "where", "tril", "triu", "tril_", "triu_", "index_put_", "index_fill_",
         "masked_scatter", "index_fill", "copy_", "fill_", "index_put", "masked_scatter_")  # fmt: skip
SUMS = ("add", "add_", "sub", "sub_", "mul", "mul_", "rsub", "baddbmm", "addmm")


def pipeline(examination: Examination) -> list[Operation]:
    """The operations that a score passes on its way to a mix, in order."""
    if examination.pipeline is None:
        examination.pipeline = _found(examination)
    return examination.pipeline


def _found(examination: Examination) -> list[Operation]:
    anatomy = examination.anatomy
    if not anatomy.mixes:
        return []
    labels = anatomy.score_labels
    last = max(mix.factors[0].number for mix in anatomy.mixes)
    after = [v for mix in anatomy.mixes for v, _ in mix.sides()]
    on_the_way = examination.trace.ancestors(after)
    return [
        operation
        for operation in examination.trace.operations
        if operation.number in on_the_way
        and operation.number <= last
        and operation.outputs
        and operation.number in anatomy.below
        and (labels[operation.outputs[0].number] != NOTHING).any()
    ]


def softmaxes(examination: Examination) -> list[Operation]:
    """The softmaxes on the way; where there is none, an exponential that does its work."""
    way = pipeline(examination)
    found = [operation for operation in way if operation.name in SOFTMAXES]
    return found or [operation for operation in way if operation.name in ("exp", "exp_", "exp2")]


def masking(examination: Examination) -> list[Operation]:
    """The operations on the way that bring a mask in, by what they do to the numbers."""
    anatomy = examination.anatomy
    found = []
    for operation in pipeline(examination):
        constant = [v for v in operation.inputs if not anatomy.tokens[v.number].any() and v.tensor.dim() >= 2]
        if operation.name in MASKS or (operation.name in SUMS and any(_varies(v.tensor) for v in constant)):
            found.append(operation)
    return found


def after_softmax(examination: Examination, operations: list[Operation]) -> list[Operation]:
    """Those of some operations that a softmax of the same scores flows into."""
    labels = examination.anatomy.score_labels
    found = []
    for soft in softmaxes(examination):
        below = examination.trace.below({soft.number})
        mine = set(labels[soft.outputs[0].number].flatten().tolist()) - {NOTHING}
        for operation in operations:
            theirs = set(labels[operation.outputs[0].number].flatten().tolist())
            if operation.number in below and operation is not soft and mine & theirs and operation not in found:
                found.append(operation)
    return found


def _varies(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 1 and bool((tensor != tensor.flatten()[0]).any())
