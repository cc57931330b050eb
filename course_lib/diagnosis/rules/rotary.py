"""Positions: prepared and never applied, or applied to the values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.recorder.call import storage_of

from ..anatomy import Anatomy, shares_and_values
from ..examination import Examination
from ..labels import NOTHING
from ..lines import line_at, of_attribute
from ..report import Finding
from ..trace import Operation, Value

TRIGONOMETRY = ("cos", "sin", "polar", "cos_", "sin_")
TABLE = re.compile(r"cos|sin|freq|rot|rope|theta|angle|phase|cis", re.I)


def check_rotary(examination: Examination) -> Iterator[Finding]:
    """Tables of cosines must reach queries and keys, and must not reach the values."""
    code, alive = examination.patient.code, examination.alive
    waves = [op for op in examination.trace.operations if op.name in TRIGONOMETRY]
    tables = _tables(code)
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


def _tables(code: Any) -> dict[str, int]:
    """Names and storages of buffers and attributes that hold cosines, frequencies or angles."""
    found = {}
    for prefix, module in code.named_modules() if isinstance(code, nn.Module) else ():
        plain = {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
        for name, tensor in (dict(module.named_buffers(recurse=False)) | plain).items():
            if TABLE.search(name) and (tensor.is_floating_point() or tensor.is_complex()):
                found[f"{prefix}.{name}" if prefix else name] = storage_of(tensor)
    return found


def _unturned(examination: Examination, start: list[Operation]) -> str | None:
    """The statement whose turned result is thrown away, or the line where queries and keys meet unturned."""
    trace, anatomy = examination.trace, examination.anatomy
    meeting = anatomy.meetings[0].operation
    dead = trace.below({op.number for op in start}) - examination.alive
    turned = [n for n in sorted(dead) if (anatomy.sources[trace.operations[n].outputs[0].number] != NOTHING).any()]
    if turned:
        place = trace.operations[turned[-1]].outermost
        if not any(place.names):
            return line_at(place)
    return meeting.where


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
        apart = _spread(anatomy, values, seen)
        if apart < 1e-6 or not projected or any(_spread(anatomy, value, seen) > 1e-9 for value in projected):
            continue
        way = trace.ancestors([values])
        turned = [
            op
            for op in trace.operations
            if op.number in way and op.number > projected[0].made_by and _spread(anatomy, op.outputs[0], seen) > 1e-6
        ]
        words = f"with the same token everywhere, the values differ from place to place by up to {apart:.4f}"
        yield Finding.named("rotary-on-values", words, line_at(turned[0].place_in(mix.operation.code)))
        return


def _spread(anatomy: Anatomy, value: Value, seen: list[Tensor]) -> float:
    """How far the numbers of one column and sample are apart from token to token."""
    tokens, sources = anatomy.single(value), anatomy.sources[value.number]
    if (tokens < 0).any() or (sources == NOTHING).any():
        return 0.0
    columns = torch.stack([anatomy.samples[value.number].flatten(), sources.flatten()])
    groups = torch.unique(columns, dim=1, return_inverse=True)[1]
    numbers = seen[value.number].double().flatten()
    empty = torch.zeros(int(groups.max()) + 1, dtype=torch.float64)
    ends = [empty.scatter_reduce(0, groups, numbers, end, include_self=False) for end in ("amin", "amax")]
    return float((ends[1] - ends[0]).max())
