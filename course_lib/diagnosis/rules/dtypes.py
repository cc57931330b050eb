"""Find code that only runs in one dtype, and products that overflow float16."""

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_made, locate_pinned
from course_lib.diagnosis.measure import FreshRuns, SoftmaxPath, Structure, SubjectFailed
from course_lib.diagnosis.registry import rule
from course_lib.tracing import Operation

NARROW = (torch.float32, torch.float16, torch.bfloat16)
ELEMENTWISE = ("mul", "div", "mul_", "div_", "add", "add_", "sub", "where")  # PyTorch accepts two dtypes here
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "sum", "mul", "linear")
OF_DTYPE = re.compile(r"dtype|type|Half|BFloat16|Double|Float")


@rule(order=460)
def check_overflow(structure: Structure, fresh: FreshRuns) -> Iterator[Finding]:
    """Overflow in float16."""
    run, subject, x = structure.run, fresh.run.subject, fresh.run.given
    dtype, full = subject.dtype(x), fresh.run.output.tensor
    try:
        narrow = subject.run(x.to(dtype), subject.copy(dtype))
        full = full if full.shape[:2] == x.shape[:2] else subject.run(x.double())
    except SubjectFailed:
        return
    halves = dtype == torch.float16 or any(map(_makes_half, run.trace.operations))
    if narrow.isfinite().all() or not (halves or full.isfinite().all()):
        return
    trace, _ = subject.trace(x.to(dtype), subject.copy(dtype))
    operation = next(filter(_overflows, trace.operations), None)
    if operation is not None:
        count = f"{int((~narrow.isfinite()).sum())} of {narrow.numel()} elements of the output are not finite"
        evidence = f"a product of queries and keys grows beyond 65504 in {torch.float16}; {count}"
        yield Finding.named("overflow-half", evidence, operation.where)


def _makes_half(operation: Operation) -> bool:
    return bool(operation.outputs) and operation.outputs[0].tensor.dtype == torch.float16


def _overflows(operation: Operation) -> bool:
    """Return whether a product in float16 is not finite although its factors are."""
    if operation.name not in PRODUCTS or not operation.inputs or not _makes_half(operation):
        return False
    factors = [value.tensor for value in operation.inputs if value.tensor.is_floating_point()]
    return not operation.outputs[0].tensor.isfinite().all() and not any(one.isinf().any() for one in factors)


@rule(order=470)
def check_dtypes(structure: Structure, fresh: FreshRuns) -> Iterator[Finding]:
    """Whether the code runs in other dtypes."""
    run, subject = fresh.run, fresh.run.subject
    for dtype in (torch.bfloat16, torch.float64) if subject.is_module else ():
        try:
            output = subject.run(run.x.to(dtype), subject.copy(dtype))
        except SubjectFailed as failure:
            message = str(failure)
            if OF_DTYPE.search(message) and "not implemented" not in message:
                where = locate_pinned(run, dtype) or failure.line
                yield Finding.named("dtype-pinned", f"with {dtype}: {message}", where)
            continue
        if output.dtype != dtype:
            evidence = f"the output is {output.dtype} for an input of {dtype}"
            yield Finding.named("dtype-pinned", evidence, locate_pinned(run, dtype))


@rule(order=471)
def check_rounded_tokens(path: SoftmaxPath, fresh: FreshRuns) -> Iterator[Finding]:
    """Rounding of the tokens to a narrower dtype."""
    softmaxes = {operation.number for operation in path.softmaxes}  # a softmax in float32 that is cast back is right
    for operation in filter(_rounds, fresh.run.live_operations):
        if not path.dependence.on_input(operation.inputs[0]):
            continue
        rounded = operation.outputs[0].tensor
        after = path.trace.descendants({operation.number})
        products = [product for product in path.structure.products if product.operation.number in after]
        if softmaxes & after and not any(product.out.tensor.dtype == rounded.dtype for product in products):
            continue
        evidence = f"in a run in float64 a tensor of the shape {tuple(rounded.shape)} is rounded to {rounded.dtype}"
        yield Finding.named("dtype-pinned", evidence, operation.where)
        return


def _rounds(operation: Operation) -> bool:
    if operation.name != "_to_copy" or not operation.inputs:
        return False
    return operation.inputs[0].tensor.dtype == torch.float64 and operation.outputs[0].tensor.dtype in NARROW


@rule(order=472)
def check_narrow_constants(structure: Structure, fresh: FreshRuns) -> Iterator[Finding]:
    """Constants of a narrower dtype than the tokens."""
    for operation in fresh.run.live_operations:
        wide = any(value.tensor.dtype == torch.float64 for value in operation.inputs)
        for value in operation.inputs if wide and operation.name in ELEMENTWISE else ():
            narrow = value.tensor.dtype == torch.float32 and not structure.dependence.on_input(value)
            if narrow and value.made_by is not None and not _is_exact(value.tensor.double()):
                number = f"{float(value.tensor.double().flatten()[0]):.9f}"
                evidence = f"a constant in {value.tensor.dtype}, {number}, is combined with a tensor in float64"
                where = locate_made(structure.trace, structure.trace.operations[value.made_by]) or operation.where
                yield Finding.named("dtype-pinned", evidence, where)
                return


def _is_exact(tensor: Tensor) -> bool:
    """Return whether a narrow dtype holds all elements exactly, or they are so large that they only mask."""
    steps = tensor * 1024
    return bool((tensor.isinf() | (tensor == tensor.round()) | (steps == steps.round()) | (tensor.abs() > 1e6)).all())
