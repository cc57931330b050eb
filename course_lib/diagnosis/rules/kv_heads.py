"""Which query head reads which kv head."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..anatomy import Row
from ..examination import Examination
from ..labels import LAYOUT
from ..lines import of_local
from ..report import Finding
from ..trace import Operation, Trace
from .projections import meeting_of


def check_kv_sharing(examination: Examination) -> Iterator[Finding]:
    """Consecutive query heads must share a kv head, and every kv head must be read."""
    anatomy = examination.anatomy
    heads = anatomy.num_heads
    first = {row.head: row for row in reversed(anatomy.rows)}
    told = examination.num_kv_heads
    for name in ("keys", "values"):
        sources = [first[h].key_sources[0] if name == "keys" else first[h].value_sources[0] for h in range(heads)]
        order = sorted(set(sources))
        reads = [order.index(source) for source in sources]
        count = len(order)
        right = [h // (heads // count) for h in range(heads)] if heads % count == 0 else []
        tiled = reads != right and (reads == [h % count for h in range(heads)] or sorted(reads) == right)
        if told and count < told <= heads:
            found = "kv-head-zero-only", f"{heads} query heads read {count} kv head{'s' * (count > 1)}, of {told}"
        elif count == heads and told in (None, heads) and reads != sorted(reads):
            words = f"query heads 0 to {heads - 1} read the {name} of heads {reads}"
            title = "It differs from attention in this way: heads use each other's keys or values."
            yield Finding(None, words, None, title)
            return
        elif 1 < count < heads and right and tiled:
            found = "kv-heads-tiled", f"query heads 0 to {heads - 1} read the kv heads {reads} instead of {right}"
        else:
            continue
        meeting = meeting_of(anatomy, first[0]).operation
        operation = _selecting(examination, name)
        repeated = operation is not None and operation.where != meeting.where
        if found[0] == "kv-heads-tiled" and not repeated:  # then the queries lie in that order
            operation = _splitting(examination, first[0]) or meeting
        yield Finding.named(*found, _indexing(examination.trace, operation or meeting))
        return


def _indexing(trace: Trace, operation: Operation) -> str | None:
    """Where the index was computed by which a loop picks a kv head."""
    if operation.name in ("index", "index_select") and len(operation.inputs) > 1:
        way = [trace.operations[number] for number in sorted(trace.ancestors(list(operation.inputs[1:])))]
        divided = [op for op in way if op.name in ("remainder", "fmod", "floor_divide", "div")]
        return divided[-1].where if divided else operation.where
    picks = operation.name in ("select", "slice") or operation.name not in LAYOUT
    return (of_local(operation, "%|//") if picks else None) or operation.where


def _splitting(examination: Examination, row: Row) -> Operation | None:
    """The first operation that cuts the queries into heads, where they are laid in two axes."""
    anatomy, made = examination.anatomy, {p.operation.number for p in examination.anatomy.projections}
    after = examination.trace.below(made) - made
    for operation in examination.trace.operations:
        if operation.number in after and operation.name in ("view", "_unsafe_view", "_reshape_alias"):
            before, now = operation.inputs[0].tensor.dim(), operation.outputs[0].tensor.dim()
            mine = (anatomy.sources[operation.outputs[0].number] == row.query_source[0]).any()
            if mine and now > before and now > 4:
                return operation
    return None


def _selecting(examination: Examination, name: str) -> Operation | None:
    """The first operation that repeats or picks heads on the way to the keys or values."""
    anatomy = examination.anatomy
    row = anatomy.rows[0]
    if name == "keys":
        values = [v for meeting in anatomy.meetings for v, _ in meeting.sides()]
    else:
        values = [v for v, _ in row.mix.sides()]
    way = examination.trace.ancestors(values)
    made = {p.operation.number for p in anatomy.projections}
    start = min(made) if made else 0
    best = None
    for operation in examination.trace.operations:
        if operation.number not in way or operation.number < start or operation.name not in LAYOUT:
            continue
        read = {value.number: value.tensor.numel() for value in operation.inputs}  # `[t] * n` reads one tensor
        before = sum(read.values()) if operation.name in ("cat", "stack") else operation.inputs[0].tensor.numel()
        after = operation.outputs[0].tensor.numel()
        several = len(operation.outputs) == 1
        many = len(torch.unique(anatomy.sources[operation.inputs[0].number]))
        now = len(torch.unique(anatomy.sources[operation.outputs[0].number]))
        if operation.name in ("repeat", "index", "index_select", "cat", "stack") and after != before and several:
            return operation
        if operation.name in ("select", "slice") and now < many and (after < before) and _is_kv(examination, operation):
            best = best or operation
        if operation.name == "expand" and after > before and operation.outputs[0].tensor.dim() >= 4:
            best = best or operation
    return best


def _is_kv(examination: Examination, operation: Operation) -> bool:
    """Whether what is cut belongs to keys and values alone and not to a packed projection's three parts."""
    anatomy = examination.anatomy
    queries = set()
    for row in anatomy.rows:
        queries.add(row.query_source[0])
    return not (set(anatomy.sources[operation.inputs[0].number].flatten().tolist()) & queries)
