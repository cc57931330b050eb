"""Keys that are kept: missing, misplaced, or left over from another prompt."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from ..anatomy import MANY, Anatomy
from ..examination import Examination
from ..labels import NOTHING
from ..patient import PatientFailed
from ..report import Finding
from ..trace import Operation, Trace
from .layout import in_pieces
from .weights import seen_pattern


def check_state(examination: Examination) -> Iterator[Finding]:
    """What a module keeps of one prompt must not reach the next."""
    patient = examination.patient
    if not isinstance(patient.original, nn.Module):
        return
    code = patient.copy(torch.float64)
    other = examination.x.flip(1) * 0.5 + 0.25
    try:
        fresh = patient.run(examination.x, patient.copy(torch.float64))
        patient.run(other, code)
        second = patient.run(examination.x, code)
    except PatientFailed as failure:
        kept = examination.first(lambda op: op.name in ("copy_", "cat") and op.number in examination.alive)
        yield Finding.named(
            "stale-cache", f"a second prompt fails: {failure}", failure.line or (kept.where if kept else None)
        )
        return
    if fresh.shape != second.shape:
        words = f"after another prompt the output has the shape {tuple(second.shape)}"
        yield Finding.named("stale-cache", words, _cache_line(examination, _second_run(examination)))
        return
    apart = float((fresh - second).abs().nan_to_num(nan=torch.inf).where(fresh.isfinite(), 0.0).max())
    if apart > 1e-9:
        yield Finding.named(
            "stale-cache",
            f"after another prompt the same x gives an output that is up to {apart:.4f} off",
            _cache_line(examination, _second_run(examination)),
        )


def _second_run(examination: Examination) -> Trace:
    """The trace of a run that follows another one."""
    patient = examination.patient
    code = patient.copy(torch.float64)
    patient.run(examination.x.flip(1) * 0.5 + 0.25, code)
    return patient.trace(examination.x, code)[0]


def _cache_line(examination: Examination, trace: Trace | None = None) -> str | None:
    """Where new keys are put into the cache or joined to the old ones."""
    anatomy = examination.anatomy
    kept = [op for op in (trace or examination.trace).operations if op.name in JOINS]
    if trace is not None:  # of a later run: what joins something that was there before
        old = [op for op in kept if any(v.made_by is None and v is not trace.x for v in op.inputs)]
        return (old or kept)[0].where if kept else None
    if anatomy is not None:
        kept = [op for op in kept if any((anatomy.sources[v.number] != NOTHING).any() for v in op.inputs)] or kept
        apart = [op for op in kept if op.name == "cat" and _other_tokens(anatomy, op)]
        kept = apart or [op for op in kept if op.name != "cat"] or kept
    return kept[0].where if kept else None


JOINS = ("copy_", "index_copy_", "index_put_", "cat", "scatter_", "stack")


def _other_tokens(anatomy: Anatomy, operation: Operation) -> bool:
    """Whether an operation joins numbers of different tokens."""
    held = [set(anatomy.single(v).flatten().tolist()) for v in operation.inputs]
    return len(held) > 1 and not set.intersection(*held)


def check_cache(examination: Examination) -> Iterator[Finding]:
    """In a run in pieces, every earlier token must be met, once."""

    anatomy = examination.anatomy
    if not in_pieces(anatomy) or not examination.causal:
        return
    met: dict[tuple[int, int], set[int]] = {}
    double = None
    strange = None
    for row in anatomy.rows:
        held = met.setdefault((row.head, row.query), set())
        held.update(row.keys)
        known = [key for key in row.keys if key >= 0]
        if len(known) != len(set(known)):
            double = row
        if any(key == MANY for key in row.keys):
            strange = row
        if row.score_keys != row.keys or row.blanks:
            strange = row
    seen = seen_pattern(examination)
    for (head, query), keys in sorted(met.items()):
        wanted = examination.expected[:, head, query].any(0).nonzero().flatten().tolist()
        absent = [key for key in wanted if key not in keys]
        if absent and not all(seen[0, head, query, key] for key in absent):
            yield Finding.named(
                "stale-cache",
                f"query {query} does not meet the keys of the tokens {absent}",
                _cache_line(examination),
            )
            return
    row = double or strange
    wrong = not torch.equal(seen, examination.expected)
    if row is None and wrong:
        row = next((r for r in anatomy.rows if r.keys != sorted(r.keys)), None)
    if row is not None:
        yield Finding.named(
            "stale-cache",
            f"query {row.query} meets the keys of the tokens {row.score_keys} and the values of {row.keys}",
            _cache_line(examination),
        )
