"""Samples that meet each other, and the line that laid them over each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import nn

from ..anatomy import Anatomy, single
from ..examination import Examination
from ..lines import attributes_read, of_attribute
from ..report import Finding
from ..trace import Operation, Value
from .pipeline import SOFTMAXES
from .weights import picture_of_layout


def check_samples(examination: Examination) -> Iterator[Finding]:
    """No sample's output may move with another sample."""
    anatomy, output = examination.anatomy, examination.trace.output
    batch = examination.x.shape[0]
    bits = anatomy.samples[output.number]
    if batch < 2 or output.tensor.dim() < 2 or output.tensor.shape[0] != batch:
        return
    own = 1 << torch.arange(batch).view(-1, *[1] * (bits.dim() - 1))
    stray = (bits & ~own) != 0
    if not stray.any():
        return
    operation = first_mixing(examination)
    where = operation.where if operation else None
    sample = int(stray.flatten(1).any(1).nonzero()[0, 0])
    others = [i for i in range(batch) if i != sample and ((bits[sample] >> i) & 1).any()]
    words = f"the output of sample {sample} moves when sample {others[0]} changes"
    if operation is not None and operation.name in SOFTMAXES:
        yield Finding.named("softmax-wrong-axis", f"softmax runs over the samples: {words}", where)
        return
    literal = _first_reshape(examination)
    if literal is not None:
        yield Finding.named("fixed-batch", f"samples are folded into tokens: {words}", literal.where)
        return
    yield Finding.named(
        "batch-mixed", words, _folding(examination, operation) or where, lambda: picture_of_layout(examination)
    )


def _folding(examination: Examination, mixing: Operation | None) -> str | None:
    """The line that laid samples over each other before the operation that mixed them."""
    anatomy, trace = examination.anatomy, examination.trace
    if mixing is None:
        return None
    for name, value in attributes_read(mixing, examination.patient.code):
        if isinstance(value, nn.MultiheadAttention) and not value.batch_first:
            return of_attribute(examination.patient.code, name)
    folded = [value for value in mixing.inputs if _folded(anatomy, value)]
    while folded:
        value = folded[0]
        operation = trace.operations[value.made_by] if value.made_by is not None else None
        if operation is None:
            return None
        folded = [one for one in operation.inputs if _folded(anatomy, one)]
        if not folded:
            return operation.where
    return None


def _folded(anatomy: Anatomy, value: Value) -> bool:
    """Whether samples lie along several axes, or along one that tokens lie along, too."""
    samples, tokens = single(anatomy.samples[value.number]), anatomy.single(value)
    if (samples < 0).any():
        return False
    axes = [axis for axis in range(samples.dim()) if (samples.diff(dim=axis) != 0).any()]
    return len(axes) > 1 or any((tokens.diff(dim=axis) != 0).any() and (tokens >= 0).all() for axis in axes)


def first_mixing(examination: Examination) -> Operation | None:
    """The first operation whose numbers depend on several samples although those it reads depend on one each."""
    anatomy = examination.anatomy
    for operation in examination.trace.operations:
        if operation.number not in examination.alive or not operation.outputs:
            continue
        if (single(anatomy.samples[operation.outputs[0].number]) < -1).any() and not any(
            (single(anatomy.samples[v.number]) < -1).any() for v in operation.inputs
        ):
            return operation
    return None


def _first_reshape(examination: Examination) -> Operation | None:
    """A view that makes one sample of several."""
    batch = examination.x.shape[0]
    for operation in examination.trace.operations:
        if operation.number in examination.alive and operation.name in ("view", "_unsafe_view") and operation.outputs:
            before, after = operation.inputs[0].tensor.shape, operation.outputs[0].tensor.shape
            if not re.search(r"view|reshape", operation.place.source):
                continue
            if len(before) >= 3 and before[0] == batch and len(after) >= 3 and after[0] == 1 and after[1] != batch:
                return operation
    return None
