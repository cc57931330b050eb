"""Positions: prepared and never applied, or applied to the values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..anatomy import Anatomy, shares_and_values
from ..examination import Examination
from ..labels import NOTHING
from ..lines import line_at, of_attribute
from ..report import Finding
from ..trace import Operation, Value
from .angles import TRIGONOMETRY, tables_of
from .leaks import thrown_away


def check_rotary(examination: Examination) -> Iterator[Finding]:
    """Tables of cosines must reach queries and keys, and must not reach the values."""
    code, alive = examination.patient.code, examination.alive
    waves = [op for op in examination.trace.operations if op.name in TRIGONOMETRY]
    tables = tables_of(code)
    read = {value.storage for op in examination.trace.operations if op.number in alive for value in op.inputs}
    idle = [name for name, storage in tables.items() if storage not in read]
    if waves and not any(op.number in alive for op in waves):
        words, where = "cosines and sines are computed and nothing reads them", _unturned(examination, waves)
        yield Finding.named("rotary-unused", words, where)
    elif idle and len(idle) == len(tables):
        readers = [op for op in examination.trace.operations if any(v.storage in tables.values() for v in op.inputs)]
        where = _unturned(examination, readers) or of_attribute(code, idle[0].split(".")[0])
        yield Finding.named("rotary-unused", f"`{idle[0]}` is prepared and never changes the output", where)
    elif not waves and not tables:
        module = _rotary_module(code)
        if module is not None:
            where = of_attribute(code, module.split(".")[-1])
            yield Finding.named("rotary-unused", f"`{module}` is never called", where)
    yield from _turned_values(examination)


def _unturned(examination: Examination, start: list[Operation]) -> str | None:
    """The statement whose turned result is thrown away, or the line where queries and keys meet unturned."""
    trace, anatomy = examination.trace, examination.anatomy
    meeting = anatomy.meetings[0].operation
    dead = trace.below({op.number for op in start}) - examination.alive
    turned = [n for n in sorted(dead) if (anatomy.sources[trace.operations[n].outputs[0].number] != NOTHING).any()]
    thrown = thrown_away(trace.operations[turned[-1]]) if turned else None
    return thrown or meeting.where


def _rotary_module(code: Any) -> str | None:
    """The name of a module that is called rotary."""
    for name, module in code.named_modules() if isinstance(code, nn.Module) else ():
        if name and re.search(r"rot(ary)?|rope", name + type(module).__name__, re.I):
            return name
    return None


def _turned_values(examination: Examination) -> Iterator[Finding]:
    """With the same token everywhere, values must be the same everywhere."""
    anatomy, trace = examination.anatomy, examination.trace
    seen = trace.replay(examination.x[:, :1].expand_as(examination.x).contiguous())
    for mix in anatomy.mixes:
        values = shares_and_values(anatomy, mix)[1][0]
        columns = set(anatomy.sources[values.number].flatten().tolist())
        projected = [
            p.out for p in anatomy.projections if columns & set(anatomy.sources[p.out.number].flatten().tolist())
        ]
        apart = _spread(anatomy, [values], seen)
        if apart < 1e-6 or not projected or any(_spread(anatomy, [value], seen) > 1e-9 for value in projected):
            continue
        way = [trace.operations[number] for number in sorted(trace.ancestors([values]))]
        way = [op for op in way if op.number > projected[0].made_by]
        alike: dict[tuple, list[Value]] = {}  # what the same piece of code gave, for one token after the other
        for op in way:
            alike.setdefault((*op.frames[:1], op.name), []).append(op.outputs[0])
        turned = [op for op in way if _spread(anatomy, alike[*op.frames[:1], op.name], seen) > 1e-6]
        words = f"with the same token everywhere, the values differ from place to place by up to {apart:.4f}"
        yield Finding.named("rotary-on-values", words, line_at(turned[0].place_in(mix.operation.code)))
        return


def _spread(anatomy: Anatomy, values: list[Value], seen: list[Tensor]) -> float:
    """How far the numbers of one column and sample are apart from token to token."""
    tokens = torch.cat([anatomy.single(value).flatten() for value in values])
    sources = torch.cat([anatomy.sources[value.number].flatten() for value in values])
    if (tokens < 0).any() or (sources == NOTHING).any():
        return 0.0
    samples = torch.cat([anatomy.samples[value.number].flatten() for value in values])
    groups = torch.unique(torch.stack([samples, sources]), dim=1, return_inverse=True)[1]
    numbers = torch.cat([seen[value.number].double().flatten() for value in values])
    empty = torch.zeros(int(groups.max()) + 1, dtype=torch.float64)
    ends = [empty.scatter_reduce(0, groups, numbers, end, include_self=False) for end in ("amin", "amax")]
    return float((ends[1] - ends[0]).max())
