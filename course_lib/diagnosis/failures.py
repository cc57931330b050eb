"""What a run tells that gave no output with a row for each token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import nn

from .examination import Examination
from .lines import of_attribute, of_missing_return
from .patient import PatientFailed, line_of
from .report import Finding
from .rules import outside
from .rules.dtypes import pinned

DIFFERS = "It differs from attention in this way: {}."
WRONG_DTYPE = ("expected scalar type", "same dtype")
WRONG_WIDTH = ("shapes cannot be multiplied", "size mismatch", "must match")


def of_error(error: BaseException) -> Finding:
    """A finding without a name, with the words and the line of what was raised."""
    return Finding(None, _words(error), line_of(error), DIFFERS.format("it could not be run"))


def of_failed_run(examination: Examination) -> Iterator[Finding]:
    """What a run that raised tells; code that only can't be traced is examined from outside."""
    error, patient, x = examination.result, examination.patient, examination.given
    words, line = _words(error), line_of(error)
    with suppress(PatientFailed):
        patient.run(examination.x)
        yield from outside.check(examination)
        return
    with suppress(PatientFailed):  # perhaps only 64 bits are too many
        module = isinstance(patient.original, nn.Module)
        dtype = next((p.dtype for p in patient.original.parameters()), x.dtype) if module else x.dtype
        patient.run(x.to(dtype), patient.copy(dtype))
        yield Finding.named("dtype-pinned", f"in 64 bits: {words}", pinned(examination, torch.float64) or line)
        return
    if "same device" in words:
        yield Finding.named("device-pinned", words, line)
        return
    if any(part in words for part in WRONG_DTYPE):
        yield Finding.named("dtype-pinned", words, line)
        return
    name = _broken_projection(examination) if any(part in words for part in WRONG_WIDTH) else None
    if name is not None:
        where = of_attribute(patient.code, name, "Linear") or line
        yield Finding.named("output-projection-shape", words, where)
        return
    yield of_error(error)


def _words(error: BaseException) -> str:
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def _broken_projection(examination: Examination) -> str | None:
    """The attribute of the output projection, if the run broke down after the weights were there."""
    code = examination.patient.code
    if not isinstance(code, nn.Module) or not any("softmax" in op.name for op in examination.trace.operations):
        return None
    linears = [name for name, module in code.named_modules() if isinstance(module, nn.Linear)]
    parts = reversed(linears[-1].split(".")) if linears else ()
    return next((part for part in parts if not part.isdigit()), None)


def of_no_tensor(examination: Examination) -> Finding:
    """The output is None, or something else that is no tensor."""
    own = [operation for operation in examination.trace.operations if operation.where]
    if examination.result is None:
        return Finding.named("returns-none", "it gave back None", of_missing_return(own[-1]) if own else None)
    words = f"it gave back {type(examination.result).__name__}; give `call` to say what of it is the output"
    return Finding(None, words, own[-1].where if own else None, DIFFERS.format("its output is no tensor"))


def of_wrong_shape(examination: Examination) -> Finding:
    """The output is a tensor without a row for each token."""
    given, got = tuple(examination.x.shape), tuple(examination.trace.output.tensor.shape)
    words = f"for an input of {given} it gave {got}; (batch, token, width) was expected"
    return Finding(None, words, None, DIFFERS.format("there is no row of the output for each token"))
