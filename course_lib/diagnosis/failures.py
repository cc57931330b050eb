"""What a run tells that gave no output with a row for each token."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .contraction import FACTORS
from .examination import CACHE, Examination
from .lines import of_attribute, of_missing_return
from .patient import PatientFailed, line_of
from .report import NOT_EXAMINED, Finding
from .rules import outside
from .rules.dtypes import pinned

DIFFERS = "It differs from attention in this way: {}."
FOREIGN_KEYS = f"{NOT_EXAMINED}: queries meet keys that are not made from x."
WRONG_DTYPE = ("expected scalar type", "same dtype")
GPU = re.compile(r"not compiled with CUDA|NVIDIA driver|No (CUDA|HIP) GPUs|cuda\.is_available\(\) is False|MPS backend")
WRONG_WIDTH = ("shapes cannot be multiplied", "size mismatch", "must match")


def of_error(error: BaseException) -> Finding:
    """A finding without a name, with the words and the line of what was raised."""
    return Finding(None, _words(error), line_of(error), DIFFERS.format("it could not be run"))


def asks_for_gpu(error: BaseException) -> bool:
    """Whether code was run on a machine without the GPU that it asks for by name."""
    return bool(GPU.search(str(error)))


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
    if asks_for_gpu(error):
        found = Finding.named("device-pinned", f"{words}; make the device that of x, or an argument", line)
        yield replace(found, title="A tensor is put on a GPU wherever the input is.")
        return
    if "indices" in words and "Long" in words:
        remedy = "; it takes token ids: give the attention inside it, which takes embeddings"
        yield Finding(None, words + remedy, line, DIFFERS.format("it could not be run"))
        return
    if any(part in words for part in WRONG_DTYPE):
        yield Finding.named("dtype-pinned", words, line)
        return
    if isinstance(error, TypeError) and line is None and patient.examiner is None and "missing" in words:
        yield Finding(None, words + _remedy(patient.original, words), None, DIFFERS.format("it could not be run"))
        return
    name = _broken_projection(examination) if any(part in words for part in WRONG_WIDTH) else None
    if name is not None:
        where = of_attribute(patient.code, name, "Linear") or line
        yield Finding.named("output-projection-shape", words, where)
        return
    yield of_error(error)


def _remedy(code: Any, words: str) -> str:
    """What to do about arguments that are missing."""
    if inspect.isclass(code):
        return "; it is a class: give a module that was built of it"
    fresh = any(CACHE.fullmatch(name) for name in re.findall(r"'(\w+)'", words))
    return "; give `call`, a function of (code, x), to say how to run it" + ", with a new cache each time" * fresh


def of_foreign_keys(examination: Examination) -> Finding | None:
    """Queries that meet keys of another text, which no token of x moves: nobody can tell one such key from the next."""
    anatomy, trace = examination.anatomy, examination.trace
    if anatomy is None or not isinstance(examination.patient.code, nn.Module):
        return None
    own = {value.number for values in examination.leaves.values() for value in values}
    for product in anatomy.products:
        for (queries, _), (keys, _) in (product.sides(), product.sides()[::-1]):
            if anatomy.tokens[keys.number].any() or not (anatomy.single(queries) >= 0).all():
                continue
            way = [trace.operations[number] for number in trace.ancestors([keys])]
            made = any(op.name in FACTORS for op in way)
            given = [
                v for op in way for v in op.inputs if v.made_by is None and v.number not in own and v is not trace.x
            ]
            wide = [v.tensor for v in given if v.tensor.dim() > 1 and v.tensor.is_floating_point()]
            if made and wide:
                words = (
                    f"the keys come from a tensor of the shape {tuple(wide[0].shape)} that is the same for every x; "
                )
                words += "let `call` make that from x, such as lambda module, x: module(x, context=x.flip(1))"
                return Finding(None, words, product.operation.where, FOREIGN_KEYS)
    return None


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
