"""Other dtypes: what is forced to 32 bits, and what grows too large for 16."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import nn

from ..examination import Examination
from ..patient import PatientFailed
from ..report import Finding
from ..trace import Operation
from .pipeline import softmaxes

MEETINGS = ("mul", "div", "mul_", "div_", "add", "add_", "sub", "where")  # where numbers of two dtypes may meet


def check_dtypes(examination: Examination) -> Iterator[Finding]:
    """Each dtype must come out as it went in, in its own precision."""
    patient, x = examination.patient, examination.x
    for dtype in (torch.bfloat16, torch.float64) if isinstance(patient.original, nn.Module) else ():
        try:
            output = patient.run(x.to(dtype), patient.copy(dtype))
        except PatientFailed as failure:
            words = str(failure)
            if not re.search(r"dtype|type|Half|BFloat16|Double|Float", words) or "not implemented" in words:
                continue
            line = pinned(examination, dtype) or failure.line
            yield Finding.named("dtype-pinned", f"with {dtype}: {words}", line)
            return
        if output.dtype != dtype:
            yield Finding.named(
                "dtype-pinned", f"the output is {output.dtype} for an input of {dtype}", pinned(examination, dtype)
            )
            return
    rough = _rough(examination)
    if rough is not None:
        yield rough


def pinned(examination: Examination, dtype: torch.dtype) -> str | None:
    """The line that makes or casts a tensor to another dtype and lets it meet the tokens."""
    patient = examination.patient
    trace, _ = patient.trace(examination.x.to(dtype), patient.copy(dtype))
    for operation in trace.operations:
        floats = [v for v in operation.inputs if v.tensor.is_floating_point()]
        out = [v for v in operation.outputs if v.tensor.is_floating_point()]
        if not out or out[0].tensor.dtype == dtype:
            continue
        if any(v.tensor.dtype == dtype for v in floats):
            others = [v for v in floats if v.tensor.dtype != dtype and v.made_by is not None]
            if others:
                first = trace.operations[others[0].made_by]
                return _made_where(trace, first) or operation.where
            return operation.where
    odd = [
        op
        for op in trace.operations
        if op.outputs and op.outputs[0].tensor.is_floating_point() and op.outputs[0].tensor.dtype != dtype and op.where
    ]
    return odd[0].where if odd else None


def _made_where(trace, operation: Operation) -> str | None:
    """Back through what only changes it to where a constant was made."""
    while True:
        floats = [v for v in operation.inputs if v.tensor.is_floating_point() and v.made_by is not None]
        if not floats or floats[0].tensor.dtype != operation.outputs[0].tensor.dtype:
            return operation.where
        operation = trace.operations[floats[0].made_by]


def _rough(examination: Examination) -> Finding | None:
    """In 64 bits, numbers that were rounded to 32 on the way; a softmax in 32 bits that is cast back is right."""
    trace, alive = examination.trace, examination.alive
    if examination.x.dtype != torch.float64:
        return None
    soft = {op.number for op in softmaxes(examination)} if examination.anatomy and examination.anatomy.mixes else set()
    for operation in trace.operations:
        if operation.number not in alive or not operation.outputs or not operation.inputs:
            continue
        out = operation.outputs[0].tensor
        source = operation.inputs[0].tensor
        if (
            operation.name == "_to_copy"
            and source.dtype == torch.float64
            and out.dtype in (torch.float32, torch.float16, torch.bfloat16)
        ):
            after = trace.below({operation.number})
            before_softmax = any(n in after for n in soft)
            products = [
                c for c in (examination.anatomy.products if examination.anatomy else []) if c.operation.number in after
            ]
            near = any(c.out.tensor.dtype == out.dtype for c in products)
            if before_softmax and not near:
                continue
            if not examination.anatomy or not examination.anatomy.tokens[operation.inputs[0].number].any():
                continue
            return Finding.named(
                "dtype-pinned",
                f"in a run in 64 bits {tuple(out.shape)} numbers are rounded to {out.dtype}",
                operation.where,
            )
    for operation in trace.operations:
        if operation.number not in alive or operation.name not in MEETINGS:
            continue
        wide = [v for v in operation.inputs if v.tensor.dtype == torch.float64]
        narrow = [v for v in operation.inputs if v.tensor.dtype == torch.float32]
        for value in narrow:
            if examination.anatomy and examination.anatomy.tokens[value.number].any():
                continue  # tokens that were rounded on purpose, as above
            back = value.tensor.double()
            exact = (
                back.isinf() | (back == back.round()) | ((back * 1024) == (back * 1024).round()) | (back.abs() > 1e6)
            )
            if wide and not exact.all() and value.made_by is not None:
                return Finding.named(
                    "dtype-pinned",
                    f"a number of {value.tensor.dtype}, {float(back.flatten()[0]):.9f}, meets numbers of 64 bits",
                    _made_where(trace, trace.operations[value.made_by]) or operation.where,
                )
    return None


def check_half(examination: Examination) -> Iterator[Finding]:
    """In the dtype it was given, the output must be finite where it is finite in 64 bits."""
    patient, x = examination.patient, examination.given
    original = patient.original
    dtype = x.dtype
    if isinstance(original, nn.Module):
        dtype = next((p.dtype for p in original.parameters()), x.dtype)
    exact = examination.trace.output.tensor
    try:
        rough = patient.run(x.to(dtype), patient.copy(dtype))
        full = exact if exact.shape[:2] == x.shape[:2] else patient.run(x.double())
    except PatientFailed:
        return
    halves = [op for op in examination.trace.operations if op.outputs and op.outputs[0].tensor.dtype == torch.float16]
    if full.isfinite().all() and rough.isfinite().all():
        return
    if rough.isfinite().all() or (not full.isfinite().all() and not halves and dtype != torch.float16):
        return
    trace, _ = patient.trace(x.to(dtype), patient.copy(dtype))
    for operation in trace.operations:
        out = operation.outputs[0].tensor if operation.outputs else None
        if out is None or not out.is_floating_point() or out.dtype != torch.float16 or not operation.inputs:
            continue
        grown = out.isinf() | out.isnan()
        products = operation.name in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "sum", "mul", "linear")
        if (
            grown.any()
            and products
            and not any(v.tensor.isinf().any() for v in operation.inputs if v.tensor.is_floating_point())
        ):
            yield Finding.named(
                "overflow-half",
                f"a product of queries and keys grows beyond 65504 in {out.dtype}; "
                f"{int((~rough.isfinite()).sum())} of {rough.numel()} numbers of the output are not finite",
                operation.where,
            )
            return
