"""The way out: heads averaged, the projection forgotten or of another width, weights that mix nothing."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from torch import nn

from ..anatomy import MANY
from ..examination import Examination
from ..labels import REDUCTIONS
from ..lines import first_reading, of_attribute, of_return
from ..report import Finding
from ..trace import Operation
from .layout import in_pieces
from .pipeline import SOFTMAXES
from .roles import OUT, role_of


def check_averaged(examination: Examination) -> Iterator[Finding]:
    """The output must react differently to the same change in different heads."""
    flow, anatomy = examination.flow, examination.anatomy
    if flow.same_for_heads is None or flow.same_for_heads > 1e-9 or not flow.reached.all():
        return
    after = examination.trace.below({mix.operation.number for mix in anatomy.mixes})
    sums = [
        op
        for op in examination.trace.operations
        if op.number in after
        and op.number in examination.alive
        and (op.name in ("mean", "sum", "add", "add_"))
        and op.number > min(mix.operation.number for mix in anatomy.mixes)
    ]
    reductions = [op for op in sums if op.name in REDUCTIONS] or sums
    yield Finding.named(
        "heads-averaged",
        f"the same change in each of {anatomy.num_heads} heads moves the output by the same numbers "
        f"(apart by {flow.same_for_heads:.1e})",
        reductions[0].where if reductions else None,
    )


def check_output_projection(examination: Examination) -> Iterator[Finding]:
    """A matrix that could be the output projection must be read."""
    anatomy = examination.anatomy
    merged = anatomy.num_heads * len(anatomy.rows[0].outs) if anatomy.rows else None
    for name in examination.dead:
        whole, _, part = name.partition("[")
        shape = tuple(examination.parameters[whole].shape)[1 if part else 0 :]
        called = bool(OUT.search(name))
        if role_of(whole.removesuffix(".weight").split(".")[-1]) or (part and (called or part != "3]")):
            continue  # what is missing is another role, or a slice that is none's
        fits = merged is None or merged in shape
        finished = examination.flow is not None and examination.flow.finished
        if called or part or (fits and not finished):
            last = _last_own(examination)
            where = of_return(last) if last else None
            yield Finding.named("output-projection-missing", f"`{name}` {shape} does not change the output", where)
            return


def _last_own(examination: Examination) -> Operation | None:
    own = [op for op in examination.trace.operations if op.code is not None and op.number in examination.alive]
    return own[-1] if own else None


def check_output_width(examination: Examination) -> Iterator[Finding]:
    """Where the code says which width it gives, it must give that width."""
    code, output = examination.patient.code, examination.trace.output
    if not isinstance(code, nn.Module) or examination.flow is None:
        return
    d_in, width = examination.x.shape[-1], output.tensor.shape[-1]
    merged = examination.anatomy.num_heads * max(len(row.outs) for row in examination.anatomy.rows)
    said = _said_width(code, merged)
    if said is None or said == d_in or width != d_in:
        return
    yield Finding.named(
        "output-projection-shape",
        f"its tokens come out {width} wide, as they came in; the heads together and d_out are {said} wide",
        _last_weights(examination),
    )


OUT_WIDTHS = ("d_out", "dim_out", "out_dim", "out_features", "dim_o", "output_dim", "d_output", "n_out", "out_channels")


def _said_width(code: nn.Module, merged: int) -> int | None:
    """The value of d_out as the module keeps it; of the heads together, where its constructor asks for a d_out."""
    for name in OUT_WIDTHS:
        value = getattr(code, name, None)
        if isinstance(value, int):
            return value
    try:
        names = inspect.signature(type(code).__init__).parameters
    except (TypeError, ValueError):
        return None
    return (
        merged if any(name in OUT_WIDTHS or name in ("out", "d_o", "outputs", "out_size") for name in names) else None
    )


def _last_weights(examination: Examination) -> str | None:
    """Where the weights are made that the heads' results are multiplied with."""
    finished = examination.flow.finished
    storages = {leaf.storage: name for name, values in examination.leaves.items() for leaf in values}
    for product in reversed(examination.anatomy.products):
        (left, _), (right, _) = product.sides()
        for token, fixed in ((left, right), (right, left)):
            if token in finished and fixed.storage in storages:
                name = storages[fixed.storage].split(".")
                name = name[-2] if name[-1] in ("weight", "bias") and len(name) > 1 else name[-1]
                return of_attribute(examination.patient.code, name, "Linear") or product.operation.where
    return None


def _foreign_weights(examination: Examination) -> Operation | None:
    """The operation that brings in weights that were there before, left over from another cell."""
    anatomy, trace = examination.anatomy, examination.trace
    for product in anatomy.products:
        for (values, _), (fixed, _) in (product.sides(), product.sides()[::-1]):
            mixes = product.operation.number in examination.alive and not anatomy.tokens[fixed.number].any()
            if mixes and (anatomy.single(product.out) == MANY).any() and (anatomy.single(values) >= 0).all():
                way = [trace.operations[n] for n in sorted(trace.ancestors([fixed]))]
                old = [op for op in way if any(v.made_by is None for v in op.inputs) and op.name != "alias"]
                return (old or way or [product.operation])[0]
    return None


def check_applied(examination: Examination) -> Iterator[Finding]:
    """Scores that never meet the values."""
    anatomy, output = examination.anatomy, examination.trace.output
    if anatomy.meetings and not any(m.operation.number in examination.alive for m in anatomy.meetings):
        foreign = _foreign_weights(examination)
        if foreign is not None:
            words = f"the scores of {len(anatomy.meetings)} products are never used; the values are mixed with weights "
            yield Finding.named("heads-share-scores", words + "that no token of x changes", foreign.where)
            return
    if (anatomy.single(output) == MANY).any() or not (examination.expected.sum(-1) > 1).any() or in_pieces(anatomy):
        return
    if not anatomy.meetings:
        return
    soft = [op for op in examination.trace.operations if op.name in SOFTMAXES]
    last = soft[-1] if soft else anatomy.meetings[-1].operation
    after = [op for op in examination.trace.operations if op.number > last.number and op.number in examination.alive]
    other = [op for op in after if op.where and op.where != last.where]
    dead = {op.where for op in examination.trace.operations if op.number not in examination.alive}
    where = first_reading(last, last.place, lambda name: role_of(name) == "values", dead)
    where = where or ((other or after)[0].where if after else of_return(last))
    yield Finding.named("weights-not-applied", "no token's output moves when another token changes", where)
