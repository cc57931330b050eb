"""Positions: prepared and never applied, or applied to the values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..anatomy import share_side
from ..examination import Examination
from ..labels import NOTHING
from ..lines import line_at, of_attribute
from ..report import Finding
from ..trace import Operation


def check_rotary(examination: Examination) -> Iterator[Finding]:
    """Tables of cosines must reach queries and keys, and must not reach the values."""
    anatomy, trace, alive = examination.anatomy, examination.trace, examination.alive
    trig = [op for op in trace.operations if op.name in ("cos", "sin", "polar", "cos_", "sin_")]
    queries_or_keys = [v for meeting in anatomy.meetings for v, _ in meeting.sides()]
    used = trace.ancestors(queries_or_keys)
    code = examination.patient.code
    tables = _tables(code)
    read = {v.storage for v in trace.values if v.made_by is None for op in [None]}
    met = {v.storage for op in trace.operations if op.number in alive for v in op.inputs}
    unread = [name for name, storage in tables if storage not in met]
    if trig and not any(op.number in alive for op in trig):
        yield Finding.named(
            "rotary-unused", "cosines and sines are computed and nothing reads them", _unturned(examination, trig)
        )
    elif tables and len(unread) == len(tables):
        yield Finding.named(
            "rotary-unused",
            f"`{unread[0]}` is prepared and never changes the output",
            _unturned(examination, _readers(examination, unread)) or of_attribute(code, unread[0].split(".")[0]),
        )
    elif not trig and not tables:
        idle = _idle_rotary(examination)
        if idle is not None:
            yield Finding.named("rotary-unused", f"`{idle}` is never called", of_attribute(code, idle.split(".")[-1]))
    _ = used, read
    yield from _turned_values(examination)


def _tables(code: Any) -> list[tuple[str, int]]:
    """Buffers and attributes that hold cosines, frequencies or positions."""
    found = []
    if not isinstance(code, nn.Module):
        return found
    for prefix, module in code.named_modules():
        own = dict(module.named_buffers(recurse=False)) | {
            k: v for k, v in vars(module).items() if isinstance(v, Tensor)
        }
        for name, tensor in own.items():
            if (
                re.search(r"cos|sin|freq|rot|rope|theta|angle|phase|cis", name, re.I)
                and tensor.is_floating_point() | tensor.is_complex()
            ):
                found.append((f"{prefix}.{name}" if prefix else name, tensor.untyped_storage()._cdata))
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


def _readers(examination: Examination, names: list[str]) -> list[Operation]:
    storages = {storage for name, storage in _tables(examination.patient.code) if name in names}
    return [op for op in examination.trace.operations if any(v.storage in storages for v in op.inputs)]


def _idle_rotary(examination: Examination) -> str | None:
    code = examination.patient.code
    if not isinstance(code, nn.Module):
        return None
    for name, module in code.named_modules():
        if name and re.search(r"rot(ary)?|rope", name + type(module).__name__, re.I):
            return name
    return None


def _turned_values(examination: Examination) -> Iterator[Finding]:
    """With the same token everywhere, values must be the same everywhere."""
    anatomy, trace = examination.anatomy, examination.trace
    same = examination.x[:, :1].expand_as(examination.x).contiguous()
    seen = trace.replay(same)

    def moves(value, which_tokens) -> float:
        tokens = anatomy.single(value)
        sources, samples = anatomy.sources[value.number], anatomy.samples[value.number]
        if (tokens < 0).any() or (sources == NOTHING).any():
            return 0.0
        keys = (samples * 100_003 + sources).flatten()
        groups = torch.unique(keys, return_inverse=True)[1]
        numbers = seen[value.number].double().flatten()
        count = int(groups.max()) + 1
        low = torch.full((count,), torch.inf, dtype=torch.float64).scatter_reduce(0, groups, numbers, "amin")
        high = torch.full((count,), -torch.inf, dtype=torch.float64).scatter_reduce(0, groups, numbers, "amax")
        return float((high - low).max())

    for mix in anatomy.mixes:
        value = mix.sides()[1 - share_side(anatomy, mix)][0]
        projected = [
            p.out
            for p in anatomy.projections
            if set(anatomy.sources[value.number].flatten().tolist())
            & set(anatomy.sources[p.out.number].flatten().tolist())
        ]
        apart = moves(value, None)
        if apart > 1e-6 and projected and all(moves(p, None) < 1e-9 for p in projected):
            way = trace.ancestors([value])
            turned = [
                op
                for op in trace.operations
                if op.number in way
                and op.name in ("mul", "view_as_complex", "bmm", "mm")
                and op.number > projected[0].made_by
                and moves(op.outputs[0], None) > 1e-6
            ]
            yield Finding.named(
                "rotary-on-values",
                f"with the same token everywhere, the values differ from place to place by up to {apart:.4f}",
                line_at(turned[0].place_in(mix.operation.code)) if turned else None,
            )
            return
