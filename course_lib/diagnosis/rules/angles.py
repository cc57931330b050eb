"""Where angles come from: cosines that are computed, tables that were kept, and the positions behind them."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor, nn

from course_lib.recorder.call import storage_of

from ..examination import Examination
from ..labels import NOTHING
from ..trace import Operation

TRIGONOMETRY = ("cos", "sin", "polar", "cos_", "sin_")
TABLE = re.compile(r"cos|sin|freq|rot|rope|theta|angle|phase|cis", re.I)
TURNING = re.compile(r"(^|[._])(cos|sin|cis|rope|rotary)", re.I)  # no other table can be meant
RANGES = (
    "arange",
    "zeros",
    "ones",
    "full",
    "zeros_like",
    "ones_like",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_full",
)


def tables_of(code: Any) -> dict[str, int]:
    """Names and storages of buffers and attributes that hold cosines, frequencies or angles."""
    found = {}
    for prefix, module in code.named_modules() if isinstance(code, nn.Module) else ():
        plain = {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
        for name, tensor in (dict(module.named_buffers(recurse=False)) | plain).items():
            if TABLE.search(name) and (tensor.is_floating_point() or tensor.is_complex()):
                found[f"{prefix}.{name}" if prefix else name] = storage_of(tensor)
    return found


def reads_angles(examination: Examination) -> set[int]:
    """The operations that compute cosines of positions or read a table of them, and that the output came from."""
    anatomy, found = examination.anatomy, set()
    tables = {storage for name, storage in tables_of(examination.patient.code).items() if TURNING.search(name)}
    for operation in examination.trace.operations:
        if operation.number in examination.alive and operation.outputs:
            waves = operation.name in TRIGONOMETRY and not anatomy.tokens[operation.outputs[0].number].any()
            if waves or any(value.made_by is None and value.storage in tables for value in operation.inputs):
                found.add(operation.number)
    return found


def angle_reader(examination: Examination, *, table: bool = False) -> Operation | None:
    """The first operation that turns something that was projected; or that takes rows of a table."""
    anatomy, readers = examination.anatomy, reads_angles(examination)
    below = examination.trace.below(readers)
    for operation in examination.trace.operations:
        if table and operation.number in readers and operation.name in ("slice", "index", "select", "index_select"):
            return operation
        turns = not table and operation.number in below and operation.outputs
        if turns and (anatomy.sources[operation.outputs[0].number] != NOTHING).any():
            return operation
    return None


def makes_positions(examination: Examination, num_tokens: int, *, after: int = 0) -> Operation | None:
    """The first operation, after another one, that makes positions of some tokens from which angles are computed."""
    trace, batch = examination.trace, examination.x.shape[0]
    way = trace.ancestors([value for number in reads_angles(examination) for value in trace.operations[number].inputs])
    for operation in trace.operations:
        ranges = operation.number in way and operation.number >= after and operation.name in RANGES and operation.where
        if ranges and operation.outputs[0].tensor.numel() in (num_tokens, batch * num_tokens):
            return operation
    return None


def turns_dead(examination: Examination) -> bool:
    """Whether something that was projected is turned and then used by nobody."""
    trace, anatomy = examination.trace, examination.anatomy
    waves = {op.number for op in trace.operations if op.name in TRIGONOMETRY} | reads_angles(examination)
    dead = trace.below(waves) - examination.alive
    return any((anatomy.sources[trace.operations[n].outputs[0].number] != NOTHING).any() for n in dead)


def stretch_of_angles(examination: Examination) -> float:
    """By how much tables of cosines lengthen what they turn: 1, but for models that were stretched for longer texts."""
    anatomy, readers = examination.anatomy, reads_angles(examination)
    below = examination.trace.below(readers) if readers else set()
    largest = 1.0
    for operation in examination.trace.operations:
        if operation.number not in below or operation.name not in ("mul", "mul_"):
            continue
        tables = [v for v in operation.inputs if v.tensor.dim() and not anatomy.tokens[v.number].any()]
        turned = any((anatomy.sources[v.number] != NOTHING).any() for v in operation.inputs)
        if tables and turned:
            largest = max(largest, float(tables[0].tensor.abs().max()))
    return largest if largest > 1.02 else 1.0
