"""Which line puts keys and values into a cache, says where, or hands them on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..anatomy import Row
from ..examination import Examination
from ..labels import NOTHING
from ..lines import Line, of_handed_on, of_place, of_return_below
from ..trace import Operation, Trace, Value
from .projections import meeting_of

WRITES = (
    "copy_", "index_copy_", "index_put_", "scatter_", "slice_scatter", "select_scatter", "index_copy", "index_put",
    "scatter",
)  # fmt: skip
JOINS = (*WRITES, "cat", "stack")


def leftover_line(examination: Examination) -> Line | None:
    """Where something of an earlier prompt is joined to the new keys."""
    trace = _second_run(examination)
    kept = [op for op in trace.operations if op.name in JOINS]
    old = [op for op in kept if any(v.made_by is None and v is not trace.x for v in op.inputs)]
    return (old or kept)[0].where if kept else None


def _second_run(examination: Examination) -> Trace:
    """The trace of a run that follows another one, as far as it came."""
    patient = examination.patient
    code = patient.copy(torch.float64)
    patient.trace(examination.x.flip(1) * 0.5 + 0.25, code)
    return patient.trace(examination.x, code)[0]


def join_of(examination: Examination, row: Row, role: str) -> Operation | None:
    """The operation that puts the keys, or the values, of several tokens together.

    Args:
        examination: of the patient.
        row: whose keys and values are meant.
        role: "keys" or "values".
    """
    anatomy, trace = examination.anatomy, examination.trace
    meeting = meeting_of(anatomy, row)
    product = meeting if role == "keys" else row.mix
    way = trace.ancestors([value for value, _ in product.sides()])
    sources = {one[0] for one in (row.key_sources if role == "keys" else row.value_sources)}
    joins = [op for op in trace.operations if op.name in JOINS and op.number in way]
    ours = [op for op in joins if any((anatomy.sources[v.number] == c).any() for v in op.inputs for c in sources)]
    ours = ours or joins
    cats = [op for op in ours if op.name == "cat" and _other_tokens(examination, op)]
    writes = [op for op in ours if op.name in WRITES]
    lasting = [op for op in writes if _lasts(examination, op)]
    return next(iter(cats or lasting or writes or ours), None)


def _other_tokens(examination: Examination, operation: Operation) -> bool:
    """Whether an operation joins numbers of different tokens."""
    held = [set(examination.anatomy.single(v).flatten().tolist()) - {NOTHING} for v in operation.inputs]
    return len(held) > 1 and not set.intersection(*held)


def _lasts(examination: Examination, operation: Operation) -> bool:
    """Whether what was written is still there for another piece."""
    below = examination.trace.below({operation.number})
    return len({meeting.operation.number for meeting in examination.anatomy.meetings} & below) > 1


def cut_away(examination: Examination, row: Row, join: Operation, absent: Sequence[int]) -> Line | None:
    """The line behind a join that cuts tokens off which are missing afterwards; None where they were not in it."""
    if join.name != "cat":
        return None
    anatomy, trace = examination.anatomy, examination.trace
    way = trace.ancestors([value for value, _ in meeting_of(anatomy, row).sides()]) & trace.below({join.number})

    def held(value: Value) -> bool:
        return bool(torch.isin(anatomy.single(value), torch.tensor(absent)).any())

    for operation in trace.operations:
        cuts = operation.number in way and operation.name in ("slice", "index", "index_select")
        if cuts and held(operation.inputs[0]) and not held(operation.outputs[0]):
            return operation.where
    return None


def given_back(examination: Examination, join: Operation, *, own: bool) -> Line | None:
    """The line that gives back what was kept before, or hands on the new keys alone; None where neither is the case."""
    if join.name != "cat":
        return None
    if own:
        return of_return_below(join)
    later = [op for op in examination.trace.operations if op.name == "cat" and op.number > join.number]
    below = examination.trace.below({join.number})
    again = [op for op in later if op.where == join.where]
    return of_handed_on(join) if again and not any(op.number in below for op in again) else None


def written_at(join: Operation) -> Line | None:
    """The line that says at which place an operation writes; None where it says so itself."""
    return of_place(join) if join.name in WRITES else None
