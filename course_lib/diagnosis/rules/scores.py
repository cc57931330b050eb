"""How weights follow from scores: scale, softmax and its axis, and which projections are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..anatomy import NOTHING, Anatomy
from ..examination import Examination
from ..lines import attributes_read, of_attribute, softmax_in
from ..report import Finding
from ..trace import Operation, Value
from .pipeline import SOFTMAXES, after_softmax, masking, pipeline, softmaxes


@dataclass(frozen=True)
class Fit:
    """log(weights) = scale * scores + what depends on query and key alone + a number for each row.

    Attributes:
        scale: (head,), or None where no scale fits.
        error: how far off the best one is.
        biased: whether something was added to the scores that doesn't depend on the tokens.
    """

    scale: Tensor | None
    error: float
    biased: bool


def fit(raw: Tensor, weights: Tensor, visible: Tensor) -> Fit | None:
    """Find the scale by which scores became weights.

    Args:
        raw: (batch, head, query, key), products of queries and keys.
        weights: of the same shape.
        visible: which pairs to look at.

    Returns:
        Fit, or None where no row has two visible keys.
    """
    usable = visible & (weights > 1e-200) & ~raw.isnan()
    logs = torch.where(usable, weights.clamp(min=1e-300).log(), 0.0)
    count = usable.sum(-1, keepdim=True)
    if not (count > 1).any():
        return None

    def centred(numbers: Tensor, used: Tensor) -> Tensor:
        numbers = torch.where(used, numbers, 0.0)
        mean = numbers.sum(-1, keepdim=True) / used.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(used & (used.sum(-1, keepdim=True) > 1), numbers - mean, 0.0)

    scores = torch.where(usable, raw, 0.0)
    for biased in (False, True):
        if biased and len(raw) < 2:
            break
        if biased:  # what does not depend on the tokens is the same in two samples
            used = usable[:1] & usable[1:]
            s = centred(scores[1:] - scores[:1], used)
            w = centred(logs[1:] - logs[:1], used)
        else:
            used, s, w = usable, centred(scores, usable), centred(logs, usable)
        power = (s * s).sum((0, 2, 3))
        if (power < 1e-18).any():
            continue
        scale = (s * w).sum((0, 2, 3)) / power
        error = (w - scale[:, None, None] * s).abs().amax((0, 2, 3))
        size = w.abs().amax((0, 2, 3)).clamp(min=1e-3)
        if float((error / size).max()) < 1e-5:
            return Fit(scale, float((error / size).max()), biased)
    return Fit(None, float((error / size).max()) if "error" in locals() else float("nan"), False)


def check_normalisation(examination: Examination) -> Iterator[Finding]:
    """What the weights sum to, and over which axis."""
    from .visibility import picture_of, weights_of

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
        other = axis == name or (full and not off.numel() == 0 and float(off.max()) > 1e-6)
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
    from ..anatomy import _key_sides

    return sum(_key_sides(examination.anatomy).values()) >= 0


def _softmax_line(examination: Examination, explicit: list) -> str | None:
    if not explicit:
        return _dividing(examination)
    return softmax_in(examination.patient.code, explicit[0]) or explicit[0].where


def _dividing(examination: Examination) -> str | None:
    """The line of the sum by which exponentials are divided."""
    anatomy = examination.anatomy
    for operation in examination.trace.operations:
        if operation.name == "sum" and operation.number in anatomy.below and operation.number in examination.alive:
            if (anatomy.score_labels[operation.inputs[0].number] != NOTHING).any():
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


# -- scale --


def check_scale(examination: Examination) -> Iterator[Finding]:
    """Compare the factor between projections and weights with head_dim ** -0.5."""
    from .visibility import picture_of, seen_pattern, weights_of

    anatomy, flow = examination.anatomy, examination.flow
    weights = weights_of(examination)
    visible = examination.expected & seen_pattern(examination)
    found = fit(flow.raw, weights, visible)
    if found is None or found.scale is None:
        return
    before = scale_before(examination)
    if before is None or _learned(examination):
        return
    head_dim = anatomy.head_dim
    scale = found.scale * before
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
        if operation.name in ("mul", "div") and operation.number not in examination.alive and operation.outputs:
            if (labels[operation.outputs[0].number] != NOTHING).any():
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
                    return 1.0 if not anatomy.projections else None
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


def _single_sample(anatomy, value) -> Tensor:
    from ..anatomy import single

    return single(anatomy.samples[value.number])


def _projected(examination: Examination) -> dict[tuple[int, int, int], float]:
    """(sample, token, column) -> how far the projection's number moves when x does; a bias stays out of it."""
    anatomy = examination.anatomy
    found: dict[tuple[int, int, int], float] = {}
    for product in anatomy.projections:
        value = product.out
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
