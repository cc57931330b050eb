"""The factor between projections and weights, compared with head_dim ** -0.5."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..anatomy import Anatomy, single
from ..examination import Examination
from ..labels import NOTHING
from ..lines import attributes_read, of_attribute
from ..report import Finding
from ..trace import Operation, Value
from .angles import stretch_of_angles
from .fit import fit
from .pipeline import pipeline
from .weights import picture_of, seen_pattern, weights_of


def check_scale(examination: Examination) -> Iterator[Finding]:
    """Compare the factor between projections and weights with head_dim ** -0.5."""
    anatomy, flow = examination.anatomy, examination.flow
    weights = weights_of(examination)
    visible = examination.expected & seen_pattern(examination)
    found = fit(flow.raw, weights, visible)
    if found is None:
        return
    before = scale_before(examination)
    if before is None or _learned(examination):
        return
    head_dim = anatomy.head_dim
    scale = found * before / stretch_of_angles(examination) ** 2
    if float((scale - scale[0]).abs().max()) > 1e-6 * float(scale[0].abs()):
        return
    factor, right = float(scale[0]), head_dim**-0.5
    if abs(factor / right - 1) < 1e-6:
        return
    if abs(factor - 1) < 1e-6 and _folded(examination, right):
        return
    meeting = anatomy.meetings[0].operation

    def draw():
        return picture_of(examination)

    if abs(factor - 1) < 1e-6:
        yield Finding.named(
            "missing-scale",
            f"scores go to softmax as they are; head_dim is {head_dim}, so they should be multiplied by {right:.4f}",
            _unused_scaling(examination) or meeting.where,
            draw,
        )
        return
    guess = _called(examination, factor)
    yield Finding.named(
        "wrong-scale",
        f"scores are multiplied by {factor:.4f}{guess}; for head_dim {head_dim} it should be {right:.4f}",
        _scaling_line(examination, meeting),
        draw,
    )


def _scaling_line(examination: Examination, meeting) -> str | None:
    steps = [op for op in pipeline(examination) if op.name in ("mul", "div", "mul_", "div_")]
    below = examination.trace.ancestors([v for v, _ in examination.anatomy.meetings[0].sides()])
    steps += [
        op for op in examination.trace.operations if op.number in below and op.name in ("mul", "div", "mul_", "div_")
    ]
    for operation in steps:
        if any(v.tensor.dim() > 0 and not examination.anatomy.tokens[v.number].any() for v in operation.inputs):
            continue
        return _wrong_number(examination, operation) or operation.where
    return _wrong_number(examination, meeting) or meeting.where


def _unused_scaling(examination: Examination) -> str | None:
    """A division of the scores whose result nobody reads."""
    labels = examination.anatomy.score_labels
    for operation in examination.trace.operations:
        unused = operation.name in ("mul", "div") and operation.number not in examination.alive
        if unused and (labels[operation.outputs[0].number] != NOTHING).any():
            return operation.where
    return None


def _wrong_number(examination: Examination, operation: Operation) -> str | None:
    """Where an attribute was set that the statement scales with, unless its value would be right if used rightly."""
    right = examination.anatomy.head_dim**0.5
    for name, value in attributes_read(operation, examination.patient.code):
        if isinstance(value, Tensor) and value.dim() == 0:
            value = float(value)
        if isinstance(value, float) and min(abs(value / right - 1), abs(value * right - 1)) > 1e-5:
            return of_attribute(examination.patient.code, name)
    return None


def _called(examination: Examination, factor: float) -> str:
    anatomy = examination.anatomy
    head_dim, heads = anatomy.head_dim, anatomy.num_heads
    names = {
        "1 / sqrt(width of all heads)": (head_dim * heads) ** -0.5, "1 / head_dim": 1 / head_dim,
        "sqrt(head_dim)": head_dim**0.5, "1 / sqrt(number of tokens)": examination.x.shape[1] ** -0.5,
        "1 / sqrt(d_in)": examination.x.shape[2] ** -0.5, "1 / sqrt(number of heads)": heads**-0.5,
        "1 / width of all heads": 1 / (head_dim * heads), "head_dim ** -0.25": head_dim**-0.25,
        "head_dim": float(head_dim), "1 / sqrt(batch)": examination.x.shape[0] ** -0.5,
    }  # fmt: skip
    for name, value in names.items():
        if abs(factor / value - 1) < 1e-6:
            return f", which is {name}"
    return ""


def scale_before(examination: Examination) -> float | None:
    """The factor between projected and compared queries and keys; None where they were normalised on the way."""
    anatomy = examination.anatomy
    norms = _projected(examination)
    factors = []
    for side in (0, 1):
        ratios = []
        for meeting in anatomy.meetings:
            value, which = meeting.sides()[side]
            flat = which.reshape(-1, meeting.size)
            tokens = anatomy.single(value).flatten()[flat]
            samples = _single_sample(anatomy, value).flatten()[flat]
            sources = anatomy.sources[value.number].flatten()[flat]
            numbers = examination.move_of(value).flatten()[flat]
            rows = torch.unique(flat[:, 0], return_inverse=True)[1]
            done = set()
            for row, group in enumerate(rows.tolist()):
                if group in done:
                    continue
                done.add(group)
                keys = zip(samples[row].tolist(), tokens[row].tolist(), sources[row].tolist(), strict=True)
                before = [norms.get(key) for key in keys if key[2] != NOTHING]
                if any(one is None for one in before):
                    return None
                size = sum(one * one for one in before)
                if size > 1e-20:
                    ratios.append(float((numbers[row] ** 2).sum()) / size)
        if not ratios:
            return None
        squares = torch.tensor(ratios, dtype=torch.float64)
        if float(squares.max() / squares.min()) > 1 + 1e-5:
            return None
        factors.append(float(squares.mean()) ** 0.5)
    return factors[0] * factors[1]


def _single_sample(anatomy: Anatomy, value: Value) -> Tensor:
    return single(anatomy.samples[value.number])


def _projected(examination: Examination) -> dict[tuple[int, int, int], float]:
    """(sample, token, column) -> how far the projection's number moves when x does; a bias stays out of it."""
    anatomy = examination.anatomy
    found: dict[tuple[int, int, int], float] = {}
    for value in (examination.trace.x, *(product.out for product in anatomy.projections)):
        keys = zip(
            _single_sample(anatomy, value).flatten().tolist(),
            anatomy.single(value).flatten().tolist(),
            anatomy.sources[value.number].flatten().tolist(),
            strict=True,
        )
        for key, number in zip(keys, examination.move_of(value).flatten().tolist(), strict=True):
            found.setdefault(key, number)
    return found


def _learned(examination: Examination) -> bool:
    """Whether the scores pass a parameter: a learned temperature has no right value."""
    storages = {v.storage for values in examination.leaves.values() for v in values}
    for operation in pipeline(examination):
        if operation.name in ("mul", "div", "mul_", "div_"):
            made = examination.trace.ancestors(list(operation.inputs[1:]))
            if any(v.storage in storages for v in operation.inputs[1:]):
                return True
            if not any(examination.anatomy.tokens[v.number].any() for v in operation.inputs[1:]):
                for number in made:
                    if any(v.storage in storages for v in examination.trace.operations[number].inputs):
                        return True
    return False


def _folded(examination: Examination, right: float) -> bool:
    """Whether the missing factor is in the weights: those of queries or keys are that much smaller than the others."""
    anatomy = examination.anatomy
    meeting, mix = anatomy.meetings[0], anatomy.mixes[0]
    values = [value for value, _ in mix.sides() if (anatomy.sources[value.number] != NOTHING).any()]
    sides = [_spread(anatomy, value) for value, _ in meeting.sides()]
    rest = _spread(anatomy, values[-1]) if values else None
    if None in sides or rest is None:
        return False
    small, large = min(sides) / rest, max(sides) / rest
    return abs(small / right - 1) < 0.35 and abs(large - 1) < 0.35


def _spread(anatomy: Anatomy, value: Value) -> float | None:
    """The standard deviation of the weights that projected a value."""
    columns = torch.unique(anatomy.sources[value.number])
    for product in anatomy.projections:
        mine = torch.isin(anatomy.sources[product.out.number].flatten(), columns[columns != NOTHING])
        if mine.any():
            fixed, which = product.sides()[1 if anatomy.tokens[product.left.number].any() else 0]
            return float(fixed.tensor.double().flatten()[which[mine]].std()) or None
    return None
