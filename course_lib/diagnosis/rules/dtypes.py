"""Find code that does not run in float16 or bfloat16, and products that overflow float16."""

import inspect
import re
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType

import torch
from torch import Tensor, nn

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_attribute, locate_made, locate_pinned
from course_lib.diagnosis.measure import (
    Attempt,
    FreshRuns,
    Run,
    SoftmaxPath,
    Structure,
    Subject,
    SubjectFailed,
    plain_lists,
)
from course_lib.diagnosis.registry import Of, rule
from course_lib.tracing import Operation, SourceLine, storage_of, tensors_in, torch_private

HALVES = (torch.bfloat16, torch.float16)
INEXACT = 0.5  # of the size of the output; 16 bits make it a few percent, and ten times more if scores are large
ELEMENTWISE = ("mul", "div", "mul_", "div_", "add", "add_", "sub", "where")  # PyTorch accepts two dtypes here
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "sum", "mul", "linear")
NORM = re.compile("norm", re.I)
OF_DTYPE = re.compile(r"dtype|type|Half|BFloat16|Double|Float")


@rule(of=Of.WHOLE)
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


@rule(of=Of.WHOLE)
def check_dtypes(fresh: FreshRuns) -> Iterator[Finding | str]:
    """Whether the code runs in float16 and bfloat16."""
    run, subject = fresh.run, fresh.run.subject
    for dtype in () if torch_private.any_autocast() else HALVES:
        x = run.x.to(dtype)
        try:
            output = _run_in_halves(subject, x)
        except SubjectFailed as failure:
            message = str(failure)
            # A function may convert its own tensors for this very run in float64.
            if "without overflow" in message:
                yield f"in {dtype} it fails, because a number such as -1e9 does not fit: {message}"
            elif subject.is_module and OF_DTYPE.search(message) and "not implemented" not in message:
                if _runs_with_wide_norms(subject, x):
                    yield f"in {dtype} its norms must stay in float32, in which they compute"
                    return
                where = locate_pinned(run, dtype) or failure.line
                if is_of_call(run, where):
                    yield f"in {dtype} it was not run, because `call` makes a tensor of another dtype: {where}"
                    return
                yield Finding.named("dtype-pinned", f"with {dtype}: {message}", where)
                return
            continue
        if output.dtype == torch.float32 and subject.makes_x:
            yield f"in {dtype} its output is {output.dtype}, as that of a language model often is"
        elif output.dtype not in (dtype, torch.float64):
            evidence = f"the output is {output.dtype} for an input of {dtype}"
            yield Finding.named("dtype-pinned", evidence, locate_pinned(run, dtype))
            return
        apart = _relative_error(subject, x, output)
        if apart is not None and apart > INEXACT:
            evidence = f"with {dtype} the output is {apart:.0%} off from that of the same weights and x in float64"
            yield Finding.unnamed("it is wrong in 16 bits", evidence)
            return


@rule(of=Of.WHOLE)
def check_plain_lists(run: Run) -> Iterator[Finding]:
    """Whether all layers are converted with the model."""
    code = run.subject.original
    for path, _, name in plain_lists(code) if isinstance(code, nn.Module) else ():
        if any(one.startswith(f"{path}.") for one in run.parameter_reads):
            evidence = f"layers are kept in a plain list, `{path}`, so that `.to()`, `.double()`, `.eval()` and "
            evidence += "`state_dict()` pass them by: use nn.ModuleList"
            yield Finding.named("dtype-pinned", evidence, locate_attribute(run.subject, name))
            return


def _run_in_halves(subject: Subject, x: Tensor) -> Tensor:
    """Return the output in the dtype of x; a dtype that the code was given is that of its weights, or it stays.

    Raises:
        SubjectFailed: it runs in neither way.
    """
    try:
        return subject.run(x, subject.copy(x.dtype))
    except SubjectFailed as failure:
        given = subject.with_given_dtype()
        try:
            return given.run(x, given.copy(x.dtype))
        except SubjectFailed:
            raise failure from None


def is_of_call(run: Attempt, where: SourceLine | None) -> bool:
    """Return whether a line belongs to `call`, or to a module that it runs beside the code, or reads what it gives."""
    caller = run.subject.caller
    if caller is None or where is None:
        return False
    if str(where.file) == caller.co_filename and where.line in {line for _, _, line in caller.co_lines()}:
        return True
    given = {storage_of(one) for one in tensors_of_call(run.subject)}
    if any(value.storage in given for one in run.trace.operations if one.where == where for value in one.inputs):
        return True
    own = _functions_of(run.subject.modules.values())
    made = [{code for code, _ in one.frames} for one in run.trace.operations if one.where == where]
    beside = [own.isdisjoint(codes) and any(code.co_name == "forward" for code in codes) for codes in made]
    return bool(own and beside) and all(beside)


def tensors_of_call(subject: Subject) -> list[Tensor]:
    """Return the tensors outside the code that `call` may give it, also those of modules, such as one of rotations."""
    call = subject.given_call
    around = inspect.getclosurevars(call) if inspect.isfunction(call) else None
    held = [*around.nonlocals.values(), *around.globals.values()] if around else []
    modules = [one for one in held if isinstance(one, nn.Module)]
    return [*tensors_in(held), *(tensor for one in modules for tensor in (*one.parameters(), *one.buffers()))]


def _functions_of(modules: Iterable[nn.Module]) -> set[CodeType]:
    """Return the code objects of the methods of some modules."""
    classes = {base for module in modules for base in type(module).__mro__ if not base.__module__.startswith("torch.")}
    methods = (getattr(one, "fget", one) for base in classes for one in vars(base).values())
    return {inspect.unwrap(one).__code__ for one in methods if isinstance(one, FunctionType)}


def _runs_with_wide_norms(subject: Subject, x: Tensor) -> bool:
    """Return whether the code runs, and keeps the dtype of x, if its norms keep their parameters in float32."""
    code = subject.copy(x.dtype)
    for module in code.modules() if isinstance(code, nn.Module) else ():
        own = list(module.parameters(recurse=False))
        if own and NORM.search(type(module).__name__) and all(one.dim() < 2 for one in own):
            module.float()
    try:
        return subject.run(x, code).dtype == x.dtype
    except SubjectFailed:
        return False


def _relative_error(subject: Subject, x: Tensor, output: Tensor) -> float | None:
    """Return how far a 16-bit output is from that of the same numbers in float64; None if unknown or not finite."""
    code = subject.copy(x.dtype)
    if not isinstance(code, nn.Module):
        return None
    try:
        exact = subject.run(x.double(), code.double())
    except SubjectFailed:
        return None
    if exact.shape != output.shape or not exact.isfinite().all() or not output.isfinite().all():
        return None  # an overflow has a name of its own
    return float((output.double() - exact).norm() / exact.norm().clamp(min=1e-12))


@rule()
def check_rounded_tokens(path: SoftmaxPath, fresh: FreshRuns) -> Iterator[Finding | str]:
    """Rounding of the tokens to a narrower dtype."""
    softmaxes = {operation.number for operation in path.softmaxes}  # a softmax that is cast back is right
    for operation in filter(_rounds_to_16_bits, fresh.run.live_operations):
        if not path.dependence.on_input(operation.inputs[0]):
            continue
        rounded = operation.outputs[0].tensor
        after = path.trace.descendants({operation.number})
        products = [product for product in path.structure.products if product.operation.number in after]
        if softmaxes & after and not any(product.out.tensor.dtype == rounded.dtype for product in products):
            continue
        evidence = f"in a run in float64 a tensor of the shape {tuple(rounded.shape)} is rounded to {rounded.dtype}"
        yield Finding.named("dtype-pinned", evidence, operation.where, rounds=True)
        return


@rule()
def check_rounding_in_64_bits(structure: Structure, path: SoftmaxPath, fresh: FreshRuns) -> Iterator[str]:
    """Rounding to float32 in a run in float64."""
    subject, of_softmax = fresh.run.subject, [operation.where for operation in path.softmaxes]
    lines = [line for line in subject.rounded_at if line not in of_softmax]  # a softmax in float32 is usual
    if lines:
        yield f"{lines[0]} computes in float32, as is right in 16 bits; in float64 it rounds to 7 digits"
    elif subject.widened and not subject.rounded_at:
        yield "it does not run in float64, and so it was examined with float64 in place of its float32"
    elif (where := _narrow_constant(structure)) is not None:
        yield f"{where} makes a constant in float32, which has 7 digits in a run in float64"


def _rounds_to_16_bits(operation: Operation) -> bool:
    if operation.name != "_to_copy" or not operation.inputs:
        return False
    return operation.inputs[0].tensor.dtype == torch.float64 and operation.outputs[0].tensor.dtype in HALVES


def _narrow_constant(structure: Structure) -> SourceLine | None:
    """Find where a constant in float32 was made that is combined with tensors in float64."""
    for operation in structure.run.live_operations:
        wide = any(value.tensor.dtype == torch.float64 for value in operation.inputs)
        for value in operation.inputs if wide and operation.name in ELEMENTWISE else ():
            narrow = value.tensor.dtype == torch.float32 and not structure.dependence.on_input(value)
            if narrow and value.made_by is not None and not _is_exact(value.tensor.double()):
                return locate_made(structure.trace, structure.trace.operations[value.made_by]) or operation.where
    return None


def _is_exact(tensor: Tensor) -> bool:
    """Return whether a narrow dtype holds all elements exactly, or they are so large that they only mask."""
    steps = tensor * 1024
    return bool((tensor.isinf() | (tensor == tensor.round()) | (steps == steps.round()) | (tensor.abs() > 1e6)).all())
