"""A bias by distance must fall with it, and neither a bias nor a mask may be scaled with the scores."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.finding_pictures import picture_of_weights
from course_lib.diagnosis.locate import locate_held
from course_lib.diagnosis.measure import SCALINGS, Attention, SoftmaxPath, Visibility, by_query_and_key, intended_logits
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, Operation, SourceLine

SUMS = ("add", "add_", "sub", "sub_", "baddbmm", "rsub")
HIDDEN = -1e3  # lower numbers are a mask
POSITIVE = ("softplus", "exp", "sigmoid", "abs", "square", "relu")


@rule(of_dot_products=True)
def check_bias(attention: Attention, path: SoftmaxPath) -> Iterator[Finding]:
    """Whether a bias falls with distance."""
    for operation in path.masking:
        slopes = _slopes(attention, path, operation)
        of_distances = not slopes and _adds_distances(attention, path, operation)
        if not (slopes or of_distances):
            continue
        scaled = _scaling_after(path, operation)
        if all(slope > 0 for slope in slopes):
            evidence = _gain(slopes) if slopes else "distances between tokens are added; they should be subtracted"
            draw = partial(picture_of_weights, attention, path, partial(_turned, attention, path, operation))
            yield Finding.named("bias-wrong-sign", evidence, _locate_bias(path, operation), draw)
            return
        if scaled is not None:
            evidence = f"a bias of {max(slopes):.4f} to {min(slopes):.4f} for each step away is added, and then "
            evidence += f"`{scaled.name.rstrip('_')}` scales it together with the scores"
            yield Finding.named("mask-scaled", evidence, scaled.where)
            return


@rule(of_dot_products=True)
def check_distances(attention: Attention, path: SoftmaxPath) -> Iterator[Finding]:
    """Whether distances are between queries and keys."""
    before = path.structure.ancestors_of([value for one in path.masking for value in one.inputs])
    for operation in before:
        values = [value for value in operation.inputs if value.tensor.dim() > 1]
        if operation.name in ("sub", "rsub") and len(values) == 2 and not any(map(path.dependence.on_input, values)):
            positions, others = (value.tensor for value in values)
            varied = bool((positions != positions.flatten()[0]).any()) and positions.numel() > 2
            if varied and positions.shape == others.shape and torch.equal(positions, others):
                evidence = f"{positions.numel()} positions are subtracted from themselves, so that every distance is 0"
                yield Finding.unnamed("a bias by distance does not depend on distance", evidence, operation.where)
                return
    for operation in path.masking if not attention.options.causal else ():
        added = _added(attention, path, operation)
        if added is None or added.isnan().any() or _is_learned(attention, path, operation):
            continue
        if all(map(_is_signed, added)):
            evidence = (
                "what is added rises or falls from the first key to the last, whatever the query is: a distance has "
                "no sign"
            )
            yield Finding.named("bias-wrong-sign", evidence, _locate_bias(path, operation))
            return


def _is_signed(added: Tensor) -> bool:
    """Return whether (query, key) holds a multiple of the key's position less the query's."""
    at = torch.arange(len(added), dtype=added.dtype)
    signed = at - at[:, None]
    slope = float(added[0, -1]) / max(1, len(added) - 1)
    near = 1e-6 * max(1.0, float(added.abs().max()))
    return len(added) > 2 and abs(slope) > 1e-6 and bool(((added - slope * signed).abs() <= near).all())


@rule(of_dot_products=True)
def check_added_twice(path: SoftmaxPath) -> Iterator[Finding]:
    """Whether a bias is added to the same scores again."""
    added: list[tuple[Operation, Tensor]] = []
    for operation in path.operations:
        for value in operation.inputs if operation.name in SUMS and len(operation.inputs) == 2 else ():
            tensor = value.tensor
            if path.scores.reaches(value) or not _is_bias(tensor):
                continue
            for first in (one for one, before in added if _are_equal(tensor, before)):
                between = path.trace.descendants({first.number}) & path.trace.ancestors(operation.inputs)
                if first.number in between and not any(one.number in between for one in path.softmaxes):
                    evidence = f"the same {tensor.numel()} numbers are added to the scores twice"
                    yield Finding.unnamed("a bias is added twice", evidence, operation.where)
                    return
            added.append((operation, tensor))


def _is_bias(added: Tensor) -> bool:
    """Return whether what is added differs from pair to pair, and is no mask, which may be added again."""
    is_table = added.dim() > 1 and added.is_floating_point()
    return is_table and len(added.unique()) > 2 and float(added.min()) > HIDDEN


def _are_equal(bias: Tensor, before: Tensor) -> bool:
    """Return whether biases are those that were added before, which may be repeated for each sample."""
    if bias.numel() == before.numel():
        dim = max(bias.dim(), before.dim())  # one number for each query is not one for each key
        bias, before = (one[(None,) * (dim - one.dim())] for one in (bias, before))
        return torch.equal(bias, before.to(bias.dtype))
    alike = all(1 in pair or pair[0] == pair[1] for pair in zip(bias.shape, before.shape, strict=False))
    return bias.dim() == before.dim() and alike and torch.equal(*torch.broadcast_tensors(bias, before.to(bias.dtype)))


@rule(of_dot_products=True)
def check_bias_of_hidden(attention: Attention, path: SoftmaxPath) -> Iterator[Finding]:
    """Whether a bias tells apart the keys that are seen."""
    expected = attention.expected[0]
    for operation in path.masking if bool((~expected).any()) else ():
        added = _added(attention, path, operation)
        if added is None or added[expected].isnan().any() or bool((added <= HIDDEN).any()):
            continue
        if added.isnan().any() and not operation.outputs[0].tensor.isnan().any():
            continue  # what is added for the keys that are hidden is unknown, and no logarithm of a negative distance
        low, high = (added.masked_fill(~expected, end) for end in (torch.inf, -torch.inf))
        same = float((high.amax(-1) - low.amin(-1)).max()) < 1e-6
        if same and len(added[~expected].round(decimals=6).unique()) > 2 * len(added):
            evidence = (
                "what is added to the scores is the same for all keys that a query sees, and differs among those "
                "that are hidden from it"
            )
            where = _locate_distances(path, operation) or _locate_bias(path, operation)
            yield Finding.unnamed("a bias by distance counts distances the other way round", evidence, where)
            return


@rule(of_dot_products=True)
def check_scaled_mask(visibility: Visibility) -> Iterator[Finding]:
    """Whether a mask is scaled with the scores."""
    path = visibility.path
    if not visibility.leaked.any() or visibility.missing.any():
        return
    for operation in path.masking:
        fill = _fill(path, operation)
        scaled = None if fill is None else _scaling_after(path, operation)
        if scaled is not None:
            leak = float(visibility.attention.weights[visibility.leaked].abs().max())
            evidence = f"hidden scores count as {fill:g} and are then scaled with the others: a hidden token gets a "
            draw = partial(picture_of_weights, visibility.attention, path)
            yield Finding.named("mask-scaled", f"{evidence}weight of up to {leak:.2g}", scaled.where, draw)
            return


def _fill(path: SoftmaxPath, operation: Operation) -> float | None:
    """Return the finite, negative number that hides; None for another mask."""
    made = operation.outputs[0].tensor
    numbers = [one for one in operation.args if isinstance(one, float | int) and not isinstance(one, bool)]
    fixed = [v.tensor for v in operation.inputs if not path.dependence.on_input(v) and v.tensor.numel()]
    numbers += [-float(one.max()) if operation.name.startswith("sub") else float(one.min()) for one in fixed]
    low = [one for one in numbers if -1e9 < one < -1]
    return low[0] if low and made.is_floating_point() and bool(made.isfinite().all()) else None


def _scaling_after(path: SoftmaxPath, operation: Operation) -> Operation | None:
    """Return the operation that multiplies what was added or masked by a number before softmax."""
    after = path.trace.descendants({operation.number})
    learned = path.run.parameter_storages
    last = path.softmaxes[0].number if path.softmaxes else len(path.trace.operations)
    for one in path.operations:
        if one.number not in after or one.number >= last or one is operation or one.name not in SCALINGS:
            continue
        factors = [v.tensor for v in one.inputs[1:] if v.storage not in learned]
        numbers = [arg for arg in one.args[1:] if isinstance(arg, float | int)] + [
            float(f) for f in factors if f.numel() == 1 and not path.dependence.on_input(one.inputs[1])
        ]
        if numbers and abs(numbers[0]) not in (0.0, 1.0):
            return one
    return None


def _slopes(attention: Attention, path: SoftmaxPath, operation: Operation) -> list[float]:
    """Return what an operation adds to each head's scores for each step away; [] if it isn't monotonic."""
    added = _added(attention, path, operation)
    if added is None or _is_learned(attention, path, operation):
        return []
    found = []
    for head in range(added.shape[0]):
        slope = _slope(added[head], attention.expected[0, head])
        if slope is None:
            return []
        found += [] if torch.isnan(torch.tensor(slope)) else [slope]
    return found


def _gain(slopes: list[float]) -> str:
    return f"with each step away a key gains from {min(slopes):.4f} to {max(slopes):.4f}; it should lose"


def _adds_distances(attention: Attention, path: SoftmaxPath, operation: Operation) -> bool:
    """Return whether an operation adds a distance between tokens to each head's scores, such as one on a grid.

    A distance is the same both ways, least from a token to itself, and no longer than any way round. Tokens that are
    equally far from all, as a class token is, have no place.
    """
    added = _added(attention, path, operation)
    if added is None or added.isnan().any() or _is_learned(attention, path, operation):
        return False
    rows = [head[(head != head[:, :1]).any(-1)][:, (head != head[:, :1]).any(-1)] for head in added]
    return all(len(head) > 3 and _is_distance(head - head.diagonal().min()) for head in rows)


def _is_distance(between: Tensor) -> bool:
    """Return whether (token, token) holds distances, of at least three lengths."""
    near = 1e-6 * float(between.abs().max())
    apart = ~torch.eye(len(between), dtype=torch.bool)
    detours = (between[:, :, None] + between[None]).amin(1)
    is_metric = bool((between - between.mT).abs().max() <= near and (between <= detours + near).all())
    return is_metric and bool((between[apart] > near).all()) and len(torch.unique(between[apart].round(decimals=6))) > 2


def _slope(added: Tensor, expected: Tensor) -> float | None:
    """Return the mean slope of (query, key) over the distance, nan below three distances; None if not monotonic."""
    tokens = torch.arange(len(added))
    usable = expected & added.isfinite() & (added > HIDDEN)
    away = (tokens[:, None] - tokens).abs()
    nearest = away.masked_fill(~usable, len(tokens)).argmin(-1, keepdim=True)
    rest = added - added.gather(-1, nearest)  # softmax is the same with another number in the whole row
    away, y = away[usable], rest[usable]
    distances, which = torch.unique(away, return_inverse=True)
    if len(distances) < 3:
        return float("nan")
    empty = torch.zeros(len(distances), dtype=y.dtype)
    small, large = (empty.scatter_reduce(0, which, y, end, include_self=False) for end in ("amin", "amax"))
    steps = small.diff() / distances.diff()
    one_way = bool((steps > 1e-9).all() or (steps < -1e-9).all())
    of_distance = float((large - small).max()) <= 1e-4 * float(steps.abs().max())
    return float(small[-1] - small[0]) / int(distances[-1] - distances[0]) if one_way and of_distance else None


def _added(attention: Attention, path: SoftmaxPath, operation: Operation) -> Tensor | None:
    """Return what an operation adds to the scores of the first sample, (head, query, key); nan where unknown."""
    if operation.name not in SUMS:
        return None
    labels = path.scores.labels[operation.outputs[0].number].flatten()
    if operation.name == "baddbmm":
        before = path.scores.dot_products[labels.clamp(min=0)] * float(operation.kwargs.get("alpha", 1))
    else:
        scored = next((value for value in operation.inputs if path.scores.reaches(value)), None)
        if scored is None or scored.tensor.shape != operation.outputs[0].tensor.shape:
            return None
        before = scored.tensor.flatten().double()
    added = operation.outputs[0].tensor.flatten().double() - before
    table = by_query_and_key(attention, labels.tolist(), added.tolist())
    return None if (labels == UNLABELLED).any() or table.isnan().all() else table


def _turned(attention: Attention, path: SoftmaxPath, operation: Operation) -> Tensor | None:
    """Return the intended logits with the opposite of what an operation adds; None if they are not known."""
    logits, added = intended_logits(attention, path), _added(attention, path, operation)
    if logits is None or added is None or _scaling_after(path, operation) is not None:
        return None
    return logits - 2 * added.nan_to_num(posinf=0.0, neginf=0.0)


def _is_learned(attention: Attention, path: SoftmaxPath, operation: Operation) -> bool:
    """Return whether training can change the sign of what an operation adds; not of slopes that are made positive."""
    learned = path.run.parameter_storages
    pending = [value for value in operation.inputs if not path.dependence.on_input(value)]
    while pending:
        value = pending.pop()
        made = None if value.made_by is None else path.trace.operations[value.made_by]
        if value.storage in learned:
            return True
        if made is not None and not (made.name in POSITIVE and value.tensor.numel() <= attention.rows.num_heads):
            pending += made.inputs
    return False


def _locate_bias(path: SoftmaxPath, operation: Operation) -> SourceLine | None:
    """Find the line that multiplies slopes and distances, or where their buffer was made, or else the sum."""
    fixed = [value for value in operation.inputs if not path.dependence.on_input(value)]
    made = [
        op for op in path.structure.ancestors_of(fixed) if op.name.rstrip("_") in ("mul", "div", "bmm") and op.where
    ]
    if operation.name.startswith(("sub", "rsub")):
        return operation.where
    read = {value.storage for value in operation.inputs}
    return made[-1].where if made else locate_held(path.run.subject, read) or operation.where


def _locate_distances(path: SoftmaxPath, operation: Operation) -> SourceLine | None:
    """Find the line that subtracts the positions of queries and keys from each other."""
    before = path.structure.ancestors_of(list(operation.inputs))
    made = (one for one in before if one.name in ("sub", "rsub") and len(one.inputs) == 2)
    whole = (one.where for one in made if not one.outputs[0].tensor.is_floating_point())
    return next(whole, None)
