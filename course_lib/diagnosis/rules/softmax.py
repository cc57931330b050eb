"""What the weights sum to, over which axis, and how often softmax was taken."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..anatomy import key_sides
from ..examination import Examination
from ..labels import NOTHING
from ..lines import Line, softmax_in
from ..report import Finding
from ..trace import Operation
from .blanks import has_prefix, has_sink
from .pipeline import SOFTMAXES, after_softmax, masking, pipeline, softmaxes
from .weights import picture_of, weights_of


def check_normalisation(examination: Examination) -> Iterator[Finding]:
    """Name what is wrong with the sums of the weights, or with how softmax came to them."""
    weights, rows = weights_of(examination), examination.expected.any(-1)
    total = weights.sum(-1)[rows]
    if not total.numel():
        return
    sums = f"{float(total.min()):.4f} to {float(total.max()):.4f}"
    off = float((total - 1).abs().max())
    soft = softmaxes(examination)
    named = [operation for operation in soft if "softmax" in operation.name]
    axis = _softmax_axis(examination, named)
    other = axis if axis != "keys" else None
    if axis is None and soft and off > 1e-6:
        other = _summing_to_one(weights, rows)
    twice = _twice(examination, weights)
    late = after_softmax(examination, masking(examination))

    def draw():
        return picture_of(examination)

    if not soft and (off > 1e-6 or bool((weights < -1e-9).any()) or _follows_scores(examination, weights)):
        words = f"weights from {float(weights.min()):.3f} to {float(weights.max()):.3f}, row sums from {sums}"
        yield Finding.named("no-softmax", words, _mixing_line(examination))
    elif other is not None:
        words = f"softmax runs over the {other}; over the keys the weights sum to {sums}"
        yield Finding.named("softmax-wrong-axis", words, _softmax_line(examination, named), draw)
    elif twice is not None:
        operation, most = twice
        words = f"softmax gets numbers between 0 and 1: no weight is more than {most:.3f} times another"
        yield Finding.named("double-softmax", words, _softmax_line(examination, [operation]), draw)
    elif off > 1e-5 and late and float(total.max()) < 1 + 1e-9:
        words = f"the weights of a row sum to as little as {float(total.min()):.4f}"
        yield Finding.named("mask-after-softmax", words, late[0].where, draw)
    elif off > 1e-5 and not _one_factor_a_row(examination) and not (has_sink(examination) or has_prefix(examination)):
        title = "It differs from attention in this way: the weights of a row don't sum to 1."
        yield Finding(None, f"row sums from {sums}", soft[-1].where if soft else None, title, draw=draw)


def _summing_to_one(weights: Tensor, rows: Tensor) -> str | None:
    """The axis other than the keys over which all weights sum to 1."""
    for axis, name in ((2, "queries"), (1, "heads"), (0, "samples")):
        if weights.shape[axis] > 1 and rows.all() and float((weights.sum(axis) - 1).abs().max()) < 1e-6:
            return name
    return None


def _mixing_line(examination: Examination) -> Line | None:
    """The last line that changed the scores before they were used as weights."""
    mix = examination.anatomy.mixes[0]
    way = [op for op in pipeline(examination) if op.where and op.where != mix.operation.where]
    return mix.operation.where if not way or mix.size == 1 else way[-1].where


def _one_factor_a_row(examination: Examination) -> bool:
    """Rows that are right but for a factor: a gate or a scale after the mix, which is nobody's mistake."""
    operand = examination.flow.operand
    rows = examination.expected.any(-1)
    return bool(((operand.sum(-1) - 1).abs()[rows] < 1e-6).all())


def _follows_scores(examination: Examination, weights: Tensor) -> bool:
    """Whether the weights are the scores themselves, up to a factor for each row."""
    raw = examination.flow.raw
    usable = examination.expected & ~raw.isnan() & (raw.abs() > 1e-9) & (weights != 0)
    ratio = torch.where(usable, weights / torch.where(usable, raw, 1.0), 0.0)
    count = usable.sum(-1)
    if not (count > 1).any():
        return False
    mean = ratio.sum(-1) / count.clamp(min=1)
    spread = torch.where(usable, (ratio - mean[..., None]).abs(), 0.0).amax(-1)
    return bool((spread[count > 1] <= 1e-6 * (1e-9 + mean.abs()[count > 1])).all())


def _softmax_axis(examination: Examination, named: list) -> str | None:
    """Over what the first softmax runs, by the labels of the scores it takes together."""
    if not named:
        return None
    anatomy = examination.anatomy
    operation = named[0]
    value, dim = operation.inputs[0], operation.args[1]
    labels = anatomy.score_labels[value.number].movedim(dim, -1).reshape(-1, value.tensor.shape[dim])
    labels = labels[(labels != NOTHING).all(1)]
    if not len(labels) or labels.shape[1] < 2:
        return None
    a, b = anatomy.first[labels], anatomy.second[labels]
    queries, keys = (a, b) if sum(key_sides(anatomy).values()) >= 0 else (b, a)
    samples = anatomy.score_sample[labels]
    if (samples != samples[:, :1]).any():
        return "samples"
    same_query, same_key = bool((queries == queries[:, :1]).all()), bool((keys == keys[:, :1]).all())
    if same_query and not same_key:
        return "keys"
    if same_key and not same_query:
        return "queries"
    if same_key and same_query:
        return "heads"
    return None


def _softmax_line(examination: Examination, named: list) -> Line | None:
    """The line of the first of some softmaxes, or of the sum that stands for one."""
    if not named:
        return _dividing(examination)
    return softmax_in(examination.patient.code, named[0]) or named[0].where


def _dividing(examination: Examination) -> Line | None:
    """The line of the sum by which exponentials are divided."""
    anatomy = examination.anatomy
    for operation in examination.trace.operations:
        summed = operation.name == "sum" and operation.number in anatomy.below & examination.alive
        if summed and (anatomy.score_labels[operation.inputs[0].number] != NOTHING).any():
            return operation.where
    return None


def _twice(examination: Examination, weights: Tensor) -> tuple[Operation, float] | None:
    """A softmax of shares, or of what comes from another softmax; and the largest ratio in a row of weights."""
    labels = examination.anatomy.score_labels
    named = [op for op in pipeline(examination) if op.name in SOFTMAXES]
    for last in named:
        given, dim = last.inputs[0].tensor, last.args[1]
        mine = set(labels[last.inputs[0].number].flatten().tolist()) - {NOTHING}
        seen = given.isfinite() & (given > -1e4)
        finite = torch.where(seen, given, 0.0)
        if not seen.any() or float(finite.min()) < -1e-9 or float(finite.max()) > 1 + 1e-9:
            continue
        sums = finite.sum(dim)[seen.any(dim)]
        shares = bool(((sums - 1).abs() < 1e-6).all())
        again = [
            op
            for op in named
            if op.number < last.number
            and op.name != "_log_softmax"
            and mine & set(labels[op.outputs[0].number].flatten().tolist())
            and last.number in examination.trace.below({op.number})
        ]
        if shares or again:
            return last, _largest_ratio(weights)
    return _shared_again(examination, weights)


def _shared_again(examination: Examination, weights: Tensor) -> tuple[Operation, float] | None:
    """Exponentials of what is already shared out, where softmax is written by hand."""
    way = pipeline(examination)
    for shared in way:
        numbers = shared.outputs[0].tensor
        if not numbers.is_floating_point() or not numbers.dim() or not _sums_to_one(numbers):
            continue
        below = examination.trace.below({shared.number})
        for again in way:
            if again.number > shared.number and again.number in below and again.name in ("exp", "exp_", "exp2"):
                return again, _largest_ratio(weights)
    return None


def _sums_to_one(numbers: Tensor) -> bool:
    inside = bool((numbers >= 0).all() and (numbers <= 1 + 1e-9).all())
    return inside and numbers.shape[-1] > 1 and bool(((numbers.sum(-1) - 1).abs() < 1e-6).all())


def _largest_ratio(weights: Tensor) -> float:
    """How many times the smallest weight of a row its largest one is, at most."""
    ratio = weights.amax(-1) / torch.where(weights > 0, weights, torch.inf).amin(-1)
    several = (weights > 0).sum(-1) > 1
    return float(ratio[several].max()) if several.any() else 1.0
