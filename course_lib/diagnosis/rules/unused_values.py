"""What is computed, kept or given must be read."""

import ast
from collections.abc import Iterator
from types import CodeType

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import dead_parts, dead_stores, names_in, names_read
from course_lib.diagnosis.measure import Run
from course_lib.diagnosis.registry import rule
from course_lib.tracing import ModuleCall, Operation, Source, SourceLine, Value, is_foreign, source_of


@rule(order=405)
def check_values(run: Run) -> Iterator[Finding]:
    """Whether each value that is computed is read."""
    from_x = run.in_order(run.trace.descendants_of_input())
    for code in dict.fromkeys(code for operation in from_x for code, _ in operation.frames):
        source = source_of(code)
        if source is None or code is run.subject.caller:
            continue
        inside = [operation for operation in from_x if any(one is code for one, _ in operation.frames)]
        for node, name in dead_stores(source):
            evidence = _kept(node, name, code, inside) or _computed(run, node, name, code, inside)
            if evidence:
                yield Finding.named("value-unused", evidence, SourceLine(source.file, node.lineno))
                return
        for node, names, unread in dead_parts(source):
            evidence = _taken_apart(run, node, names, unread, code, inside)
            if evidence:
                yield Finding.named("value-unused", evidence, SourceLine(source.file, node.lineno))
                return


def _taken_apart(
    run: Run, node: ast.Assign, names: list[str], unread: list[int], code: CodeType, inside: list[Operation]
) -> str:
    """Describe a part of a tensor that is named beside others and changes no output; "" if there is none."""
    read = {value.number for operation in run.in_order(run.returned) for value in operation.inputs}
    for operation in inside:
        line, outputs = operation.statement_in(code).line, operation.outputs
        if not node.lineno <= line <= (node.end_lineno or node.lineno) or len(outputs) != len(names):
            continue
        used = [value.number in read for value in outputs]
        idle = next((at for at in unread if not used[at]), None)
        if idle is not None and any(used):
            shape = tuple(outputs[idle].tensor.shape)
            return f"`{names[idle]}` {shape}, one of {len(names)} parts, is never read"
    return ""


def _kept(node: ast.Assign, name: str, code: CodeType, inside: list[Operation]) -> str:
    """Describe a name that is only kept, as `residual = x`, if tokens are computed from it; "" if it is none."""
    if not isinstance(node.value, ast.Name):
        return ""
    kept = node.value.id
    read = any(kept in names_in(operation.statement_in(code).source) for operation in inside)
    return f"`{name}` keeps `{kept}`, and no line reads it" if read else ""


def _computed(run: Run, node: ast.Assign, name: str, code: CodeType, inside: list[Operation]) -> str:
    """Describe a name whose tensor is computed from tokens and changes no output; "" if it is none."""
    last = node.end_lineno or node.lineno
    made = [operation for operation in inside if node.lineno <= operation.statement_in(code).line <= last]
    numbers = bool(made) and all(value.tensor.is_floating_point() for value in made[-1].outputs)
    if not numbers or any(operation.number in run.returned for operation in made):
        return ""
    return f"`{name}` {tuple(made[-1].outputs[0].tensor.shape)} is computed, and no line reads it"


@rule(order=406)
def check_given(run: Run) -> Iterator[Finding]:
    """Whether each tensor that a module is given is read."""
    for call in run.trace.calls:
        code = getattr(type(call.module).forward, "__code__", None)
        if code is None or is_foreign(code.co_filename) or run.returned.isdisjoint(range(call.first, call.last)):
            continue
        source = source_of(code)
        for name, value in () if source is None else _arguments(call, code):
            if source is not None and _is_unread(run, call, value, named=name in names_read(source)):
                evidence = f"`{name}` {tuple(value.tensor.shape)} is given to the module and changes no output"
                yield Finding.named("value-unused", evidence, _line_of_argument(source, name))
                return


def _arguments(call: ModuleCall, code: CodeType) -> Iterator[tuple[str, Value]]:
    """Yield the arguments that are tensors of their own, of floating-point numbers, and no mask by their name."""
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    given = {names[at] if isinstance(at, int) and at < len(names) else str(at): one for at, one in call.inputs.items()}
    for name, value in given.items():
        twice = any(one.storage == value.storage for other, one in given.items() if other != name)
        if name in names and "mask" not in name and value.tensor.is_floating_point() and not twice:
            yield name, value


def _is_unread(run: Run, call: ModuleCall, value: Value, *, named: bool) -> bool:
    """Return whether what a call makes of an argument changes no output; if nothing, whether it is never `named`.

    Code that asks an argument for its shape only, as a table of positions does, names it.
    """
    inside = run.trace.operations[call.first : call.last]
    readers = [one.number for one in inside if any(read.storage == value.storage for read in one.inputs)]
    return run.returned.isdisjoint(readers) if readers else not named


def _line_of_argument(source: Source, name: str) -> SourceLine:
    found = (one.lineno for one in ast.walk(source.tree) if isinstance(one, ast.arg) and one.arg == name)
    return SourceLine(source.file, next(found, source.tree.lineno))
