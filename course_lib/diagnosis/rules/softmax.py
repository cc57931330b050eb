"""What the weights sum to, over which axis, and how often softmax was taken."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..anatomy import key_sides
from ..examination import Examination
from ..labels import NOTHING
from ..lines import softmax_in
from ..report import Finding
from ..trace import Operation
from .pipeline import SOFTMAXES, after_softmax, masking, pipeline, softmaxes
from .weights import picture_of, weights_of


def check_normalisation(examination: Examination) -> Iterator[Finding]:
    """What the weights sum to, and over which axis."""

    weights, expected = weights_of(examination), examination.expected
    rows = expected.any(-1)
    total = weights.sum(-1)
    soft = softmaxes(examination)
    explicit = [op for op in soft if "softmax" in op.name]

    def draw():
        return picture_of(examination)

    off = (total - 1).abs()[rows]
    axis = _softmax_axis(examination, explicit)
    mixes = examination.anatomy.mixes
    if not soft:
        sign = f"weights from {float(weights.min()):.3f} to {float(weights.max()):.3f}, row sums from "
        sign += f"{float(total[rows].min()):.3f} to {float(total[rows].max()):.3f}"
        unlike = bool((off > 1e-6).any())
        if _follows_scores(examination, weights) or bool((weights < -1e-9).any()) or unlike:
            mixed = mixes[0].operation.where
            way = [op for op in pipeline(examination) if op.where and op.where != mixed]
            where = mixed if not way or mixes[0].size == 1 else way[-1].where
            yield Finding.named("no-softmax", sign, where, None)
            return
    for index, name in ((2, "queries"), (1, "heads"), (0, "samples")):
        if weights.shape[index] < 2:
            continue
        sums = weights.sum(index)
        full = rows.all() and float((sums - 1).abs().max()) < 1e-6
        other = axis == name or (full and off.numel() != 0 and float(off.max()) > 1e-6)
        if other and float(off.max()) > 1e-9 and axis in (None, name):
            sums_of = sums[sums.abs() > 1e-12]
            yield Finding.named(
                "softmax-wrong-axis",
                f"the weights sum to 1 over the {name}, over the keys to {float(total[rows].min()):.3f} up to "
                f"{float(total[rows].max()):.3f}"
                if sums_of.numel()
                else f"softmax runs over the {name}",
                _softmax_line(examination, explicit),
                draw,
            )
            return
    if axis not in (None, "keys"):
        yield Finding.named(
            "softmax-wrong-axis", f"softmax runs over the {axis}", _softmax_line(examination, explicit), draw
        )
        return
    twice = _twice(examination, weights)
    if twice is not None:
        yield Finding.named("double-softmax", twice[0], _softmax_line(examination, [twice[1]]), draw)
        return
    if off.numel() and float(off.max()) > 1e-5:
        late = after_softmax(examination, masking(examination))
        if late and bool((total[rows] < 1 + 1e-9).all()):
            first = float(total[rows].min())
            yield Finding.named(
                "mask-after-softmax", f"the weights of a row sum to as little as {first:.4f}", late[0].where, draw
            )
            return
        where = explicit[-1].where if explicit else (soft[-1].where if soft else None)
        gated = _one_factor_a_row(examination, weights)
        if not gated:
            yield Finding(
                None,
                f"row sums from {float(total[rows].min()):.4f} to {float(total[rows].max()):.4f}",
                where,
                "It differs from attention in this way: the weights of a row don't sum to 1.",
                draw=draw,
            )


def _one_factor_a_row(examination: Examination, weights: Tensor) -> bool:
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


def _softmax_axis(examination: Examination, explicit: list) -> str | None:
    """Over what the first softmax runs, by the labels of the scores it takes together."""
    if not explicit:
        return None
    anatomy = examination.anatomy
    operation = explicit[0]
    value, dim = operation.inputs[0], operation.args[1]
    labels = anatomy.score_labels[value.number].movedim(dim, -1).reshape(-1, value.tensor.shape[dim])
    labels = labels[(labels != NOTHING).all(1)]
    if not len(labels) or labels.shape[1] < 2:
        return None
    a, b = anatomy.first[labels], anatomy.second[labels]
    keys_second = _keys_second(examination)
    queries, keys = (a, b) if keys_second else (b, a)
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


def _keys_second(examination: Examination) -> bool:

    return sum(key_sides(examination.anatomy).values()) >= 0


def _softmax_line(examination: Examination, explicit: list) -> str | None:
    if not explicit:
        return _dividing(examination)
    return softmax_in(examination.patient.code, explicit[0]) or explicit[0].where


def _dividing(examination: Examination) -> str | None:
    """The line of the sum by which exponentials are divided."""
    anatomy = examination.anatomy
    for operation in examination.trace.operations:
        summed = operation.name == "sum" and operation.number in anatomy.below & examination.alive
        if summed and (anatomy.score_labels[operation.inputs[0].number] != NOTHING).any():
            return operation.where
    return None


def _twice(examination: Examination, weights: Tensor) -> tuple[str, Operation] | None:
    """A softmax whose numbers are shares already, or come from another softmax; and what it did to the weights."""
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
            ratio = weights.amax(-1) / torch.where(weights > 0, weights, torch.inf).amin(-1)
            several = (weights > 0).sum(-1) > 1
            most = float(ratio[several].max()) if several.any() else 1.0
            return f"softmax gets numbers between 0 and 1: no weight is more than {most:.3f} times another", last
    return None
