"""Check what the weights sum to, over which axis, and how often softmax is applied."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.finding_pictures import picture_of_weights
from course_lib.diagnosis.locate import locate_next_use, locate_rename, locate_softmax_layer, sets_new_name
from course_lib.diagnosis.measure import (
    EXPONENTIALS,
    MASKS,
    Attention,
    SoftmaxPath,
    TokenlessWeights,
    has_sink,
    intended_logits,
    walked_scale,
)
from course_lib.diagnosis.registry import rule
from course_lib.tracing import LAYOUT, UNLABELLED, Operation, SourceLine

from .projections import role_of_columns

SUMS = ("sum", "cumsum", "mean", "logsumexp", "norm", "linalg_vector_norm")
BEFORE_SOFTMAX = (*MASKS, "mul", "mul_", "div", "div_", "add", "add_", "sub", "sub_", "rsub", "neg", "_to_copy")


@rule()
def check_normalisation(attention: Attention, path: SoftmaxPath) -> Iterator[Finding | str]:
    """Softmax over the keys."""
    weights, rows = attention.weights, attention.expected.any(-1)
    total = weights.sum(-1)[rows]
    alone = len(path.named_softmaxes) == 1 and _axis_of(path) == "queries"
    if not total.numel() or not (attention.options.normalised or (alone and _is_transposed(attention, path))):
        return
    sums = f"{float(total.min()):.4f} to {float(total.max()):.4f}"
    off = float((total - 1).abs().max())
    axis = _wrong_axis(attention, path, is_off=off > 1e-6)
    again, late = _second_softmax(path), path.masking_after_softmax
    draw = partial(picture_of_weights, attention, path)
    if not path.softmaxes and (off > 1e-6 or bool((weights < -1e-9).any()) or _follow_scores(attention)):
        evidence = f"weights from {float(weights.min()):.3f} to {float(weights.max()):.3f}, row sums from {sums}"
        sigmoid = next((one for one in path.operations if one.name.startswith("sigmoid")), None)
        if sigmoid is not None:
            evidence += "; this is sigmoid attention: if that is on purpose, give normalised=False"
        yield Finding.named("no-softmax", evidence, sigmoid.where if sigmoid else _locate_missing_softmax(path))
    elif axis == "queries" and (off <= 1e-6 or _divides_by_more_than_sums(path)):
        yield "softmax runs over the queries, and each query's weights are then divided by their sum, as slots do"
    elif axis == "queries" and _is_transposed(attention, path):
        evidence = f"after softmax the weights are transposed: those that multiply the values sum to {sums}"
        intended = partial(intended_logits, attention, path, transposed=True)
        draw = partial(picture_of_weights, attention, path, intended)
        yield Finding.named("weights-transposed", evidence, attention.structure.value_products[0].operation.where, draw)
    elif axis is not None:
        evidence = f"softmax runs over the {axis}; over the keys the weights sum to {sums}"
        yield Finding.named("softmax-wrong-axis", evidence, _locate_softmax(path), draw, off=off)
    elif again is not None:
        most = _largest_ratio(weights)
        evidence = f"softmax gets numbers between 0 and 1: no weight is more than {most:.3f} times another"
        others = [one for one in path.named_softmaxes if one is not again]
        where = locate_softmax_layer(again, path.scores.run.subject, others) or again.where
        yield Finding.named("double-softmax", evidence, where, draw)
    elif off > 1e-5 and late and float(total.max()) < 1 + 1e-9:
        evidence = f"the weights of a row sum to as little as {float(total.min()):.4f}"
        yield Finding.named("mask-after-softmax", evidence, late[0].where, draw)
    elif off > 1e-5:
        yield from _unexplained_sums(attention, path, sums)


def _unexplained_sums(attention: Attention, path: SoftmaxPath, sums: str) -> Iterator[Finding | str]:
    """Rows of weights that don't sum to 1, and why."""
    draw = partial(picture_of_weights, attention, path)
    where = path.softmaxes[-1].where if path.softmaxes else None
    if _is_difference(path):
        yield "this is differential attention: its weights are a difference of two softmaxes, whose sum was not judged"
    elif _is_unnormalised(attention, path):
        evidence = f"the exponentials of the scores are the weights, and nothing divides them by their sum: {sums}"
        yield Finding.named("no-softmax", evidence, where, draw)
    elif part := _part_of_keys(attention, path):
        evidence = f"softmax runs over {part} keys at a time; over all keys the weights sum to {sums}"
        yield Finding.named("softmax-wrong-axis", evidence, _locate_softmax(path), draw)
    elif not _is_explained(attention, path):
        yield Finding.unnamed("the weights of a row don't sum to 1", f"row sums from {sums}", where, draw)


def _part_of_keys(attention: Attention, path: SoftmaxPath) -> int:
    """Return over how many keys at a time the only softmax runs, if a row has several such parts; else 0."""
    if len(path.named_softmaxes) != 1 or len(path.softmaxes) != 1 or _axis_of(path) != "keys":
        return 0
    sums, size = attention.weights.sum(-1), _size_of_axis(path.named_softmaxes[0])
    is_whole = (sums - sums.round()).abs().max() < 1e-6 and sums.max() > 1.5
    return size if is_whole and size < attention.weights.shape[-1] else 0


def _is_difference(path: SoftmaxPath) -> bool:
    """Return whether weights of other queries and keys are subtracted from weights."""
    after = path.trace.descendants({operation.number for operation in path.softmaxes[:1]})
    for operation in path.operations:
        inputs = [value for value in operation.inputs if path.scores.labels[value.number].numel() > 1]
        weights = [value for value in inputs if path.dependence.combines_tokens(value)]
        if operation.name in ("sub", "sub_") and operation.number in after and len(weights) == 2:
            return True
    return False


def _is_unnormalised(attention: Attention, path: SoftmaxPath) -> bool:
    """Return whether softmax is written out and its sum was forgotten."""
    if path.named_softmaxes or (attention.fitted_scale is None and walked_scale(path) is None):
        return False
    exponentials = path.trace.descendants({operation.number for operation in path.softmaxes})
    return not any(operation.name in SUMS and operation.number in exponentials for operation in path.run.live_operations
                   if any(path.scores.reaches(value) for value in operation.inputs))  # fmt: skip


def _is_explained(attention: Attention, path: SoftmaxPath) -> bool:
    """Return whether sums other than 1 are intended.

    They are with a factor per row after the value product, a sink, a prefix, or a context whose attention is added.
    """
    applied, of_context = attention.applied_weights, attention.options.num_context
    for weights in (applied, applied[..., : applied.shape[-1] - of_context]):
        if ((weights.sum(-1)[attention.expected.any(-1)] - 1).abs() < 1e-6).all():
            return True
    logits = intended_logits(attention, path)  # soft caps included
    sink = has_sink(attention) or (logits is not None and has_sink(attention, logits))
    return sink or TokenlessWeights(attention.rows).is_prefix


def _follow_scores(attention: Attention) -> bool:
    """Return whether the weights are the scores themselves, up to a factor per row."""
    scores, weights = attention.scores, attention.weights
    usable = attention.expected & ~scores.isnan() & (scores.abs() > 1e-9) & (weights != 0)
    ratio = torch.where(usable, weights / torch.where(usable, scores, 1.0), 0.0)
    count = usable.sum(-1)
    if not (count > 1).any():
        return False
    mean = ratio.sum(-1) / count.clamp(min=1)
    deviation = torch.where(usable, (ratio - mean[..., None]).abs(), 0.0).amax(-1)
    return bool((deviation[count > 1] <= 1e-6 * (1e-9 + mean.abs()[count > 1])).all())


def _locate_missing_softmax(path: SoftmaxPath) -> SourceLine | None:
    """Find the line that makes the weights without a softmax, or else the one that uses the scores as weights."""
    product = path.scores.structure.value_products[0]
    made = {one.operation.where for one in path.structure.score_products}
    ancestors = [op for op in path.operations if op.where and op.where != product.operation.where]
    renamed = locate_rename(ancestors[-1], product.operation.statement.line) if ancestors else None
    if renamed is not None and ancestors[-1].code is product.operation.code:
        return renamed
    instead = [one for one in ancestors if not _belongs_before_softmax(path, one)] if product.size > 1 else []
    if instead:
        return instead[-1].where
    if ancestors and ancestors[-1].where not in made and sets_new_name(ancestors[-1]):
        return ancestors[-1].where
    return (locate_next_use(ancestors[-1], product.operation) if ancestors else None) or product.operation.where


def _belongs_before_softmax(path: SoftmaxPath, operation: Operation) -> bool:
    """Return whether an operation makes, scales, masks or arranges scores, or adds a bias, as right code does."""
    if operation.number in {product.operation.number for product in path.structure.score_products}:
        return True
    if operation.name not in (*BEFORE_SOFTMAX, *LAYOUT):
        return False
    return not any(path.dependence.on_input(value) for value in operation.inputs if not path.scores.reaches(value))


def _wrong_axis(attention: Attention, path: SoftmaxPath, *, is_off: bool) -> str | None:
    """Return the axis that softmax runs over instead of the keys; None for the keys."""
    axis = _axis_of(path)
    if axis is not None:
        return axis if axis != "keys" else None
    if is_off and path.named_softmaxes and _size_of_axis(path.named_softmaxes[0]) == 1:
        return "axis of length 1"
    return _summing_to_one(attention) if path.softmaxes and is_off else None


def _divides_by_more_than_sums(path: SoftmaxPath) -> bool:
    """Return whether weights are divided by their sum over the keys and a constant, as a grouping of tokens does."""
    after = path.trace.descendants({operation.number for operation in path.softmaxes[:1]})
    for operation in path.operations:
        if operation.name not in ("div", "div_") or operation.number not in after or len(operation.inputs) != 2:
            continue
        weights, divisor = (value.tensor for value in operation.inputs)
        if weights.dim() == divisor.dim() and divisor.shape[-1] == 1:
            added = divisor - weights.sum(-1, keepdim=True)
            return bool((added > 0).all()) and bool((added - added.flatten()[0]).abs().max() < 1e-9)
    return False


def _is_transposed(attention: Attention, path: SoftmaxPath) -> bool:
    """Return whether the weights were right before they were transposed, by the mask, names or the axis of softmax."""
    expected, first = attention.expected, path.named_softmaxes[:1]
    if attention.options.causal:
        return torch.equal(attention.seen, expected.mT & attention.present[..., None])
    row = attention.rows.all[0]
    if [role_of_columns(attention, one) for one in (row.query_columns, row.key_columns[0])] == ["queries", "keys"]:
        return False  # the values are mixed as the names say, so softmax runs over the other axis
    last = bool(first) and first[0].args[1] in (-1, first[0].outputs[0].tensor.dim() - 1)
    return last or not (attention.options.normalised or path.scores.most_keys_are_right)


def _axis_of(path: SoftmaxPath) -> str | None:
    """Return the axis of the scores that the first softmax over tokens normalises together; None if it is unknown."""
    for operation in path.named_softmaxes:
        labels = _normalised_together(path, operation)
        if labels is None:
            return None
        queries, keys = path.scores.left.tokens[labels], path.scores.right.tokens[labels]
        if not path.scores.most_keys_are_right:
            queries, keys = keys, queries
        if (keys < 0).all() and operation is not path.named_softmaxes[-1]:
            continue  # one over learned keys alone, as of an adapter
        if not _is_constant(path.scores.samples[labels]):
            return "samples"
        same = _is_constant(queries), _is_constant(keys)
        return {(True, False): "keys", (False, True): "queries", (True, True): "heads"}.get(same)
    return None


def _normalised_together(path: SoftmaxPath, softmax: Operation) -> Tensor | None:
    """Return the labels of the scores, a row for each sum of a softmax; None if no row is of known scores alone."""
    value, dim = softmax.inputs[0], softmax.args[1]
    labels = path.scores.labels[value.number].movedim(dim, -1).reshape(-1, value.tensor.shape[dim])
    labels = labels[(labels != UNLABELLED).all(1)]
    known = (path.scores.samples[labels] != UNLABELLED).all(1)  # padding is of no sample
    labels = labels[known] if known.any() else labels
    return labels if len(labels) and labels.shape[1] > 1 else None


def _size_of_axis(softmax: Operation) -> int:
    """Return how many numbers a softmax normalises together; a single one becomes 1."""
    return softmax.outputs[0].tensor.shape[softmax.args[1]]


def _is_constant(rows: Tensor) -> bool:
    return bool((rows == rows[:, :1]).all())


def _summing_to_one(attention: Attention) -> str | None:
    """Return the axis other than the keys over which all weights sum to 1."""
    weights = attention.weights
    if attention.expected.any(-1).all():
        for axis, name in ((2, "queries"), (1, "heads"), (0, "samples")):
            if weights.shape[axis] > 1 and float((weights.sum(axis) - 1).abs().max()) < 1e-6:
                return name
    return None


def _locate_softmax(path: SoftmaxPath) -> SourceLine | None:
    """Find the line of the first softmax, or of the sum that divides the exponentials."""
    if path.named_softmaxes:
        first = path.named_softmaxes[0]
        return locate_softmax_layer(first, path.scores.run.subject) or first.where
    sums = (op for op in path.run.live_operations if op.name == "sum" and op.number in path.structure.score_descendants)
    return next((op.where for op in sums if path.scores.reaches(op.inputs[0])), None)


def _second_softmax(path: SoftmaxPath) -> Operation | None:
    """Return a softmax of weights or of another softmax's result, or an exponential that is written out."""
    for last in path.named_softmaxes:
        given, dim = last.inputs[0].tensor, last.args[1]
        seen = given.isfinite() & (given > -1e4)
        finite = torch.where(seen, given, 0.0)
        if not seen.any() or float(finite.min()) < -1e-9 or float(finite.max()) > 1 + 1e-9:
            continue
        sums = finite.sum(dim)[seen.any(dim)]
        if bool(((sums - 1).abs() < 1e-6).all()) or any(_flows_into(path, one, last) for one in path.named_softmaxes):
            return last
    for first in path.operations:
        made = first.outputs[0].tensor
        if made.is_floating_point() and made.dim() and _sums_to_one(made):
            after = path.scores.trace.descendants({first.number})
            again = (op for op in path.operations if op.number in after and op is not first)
            last = max((one.number for one in path.named_softmaxes), default=0)  # before it, exp makes a factor
            exponential = next((op for op in again if op.name in EXPONENTIALS and op.number > last), None)
            if exponential is not None:
                return exponential
    return None


def _flows_into(path: SoftmaxPath, first: Operation, last: Operation) -> bool:
    """Return whether one softmax normalises the scores that another one reads."""
    if first.number >= last.number or first.name == "_log_softmax":
        return False
    scores = path.scores
    same = scores.in_value(first.outputs[0]) & scores.in_value(last.inputs[0])
    return bool(same) and last.number in scores.trace.descendants({first.number})


def _sums_to_one(tensor: Tensor) -> bool:
    inside = bool((tensor >= 0).all() and (tensor <= 1 + 1e-9).all())
    return inside and tensor.shape[-1] > 1 and bool(((tensor.sum(-1) - 1).abs() < 1e-6).all())


def _largest_ratio(weights: Tensor) -> float:
    """Return the largest ratio between the largest and the smallest weight of a row."""
    ratio = weights.amax(-1) / torch.where(weights > 0, weights, torch.inf).amin(-1)
    several = (weights > 0).sum(-1) > 1
    return float(ratio[several].max()) if several.any() else 1.0
