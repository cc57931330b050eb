"""What is computed, kept or given must be read."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

import torch
from torch import nn

from course_lib.calling import MASKS, code_of, forward_code, parameters_of
from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import (
    changes_nothing,
    dead_parts,
    dead_stores,
    dropped_results,
    named_parts,
    names_in,
    names_read,
)
from course_lib.diagnosis.measure import Run, role_of
from course_lib.diagnosis.registry import Of, rule
from course_lib.diagnosis.rules.unused_parts import GATE
from course_lib.tracing import ModuleCall, Operation, Source, SourceLine, Value, is_foreign, source_of


@dataclass(frozen=True)
class Body:
    """A function of the author that ran.

    Attributes:
        code, source: of the function.
        operations: which it or a function that it called ran.
    """

    code: CodeType
    source: Source
    operations: list[Operation]

    def made_in(self, node: ast.stmt) -> list[Operation]:
        """Return the operations that a statement of the function ran."""
        last = node.end_lineno or node.lineno
        return [one for one in self.operations if node.lineno <= one.statement_in(self.code).line <= last]


@rule(of=Of.BOTH)
def check_values(run: Run) -> Iterator[Finding]:
    """Whether each value that is computed is read."""
    for body in _bodies(run, run.in_order(run.trace.descendants_of_input())):
        for node, evidence in _unread_values(run, body):
            where, dead = SourceLine(body.source.file, node.lineno), _read_only_in(run, body.made_in(node))
            if dead and isinstance(node, ast.Expr):  # a value that has a name is what nobody reads
                yield Finding.named("dead-parameter", f"{evidence}, and `{dead}` is read nowhere else", where)
            else:
                yield Finding.named("value-unused", evidence, where)
            return


@rule(of=Of.WHOLE)
def check_unread_masks(run: Run) -> Iterator[Finding]:
    """Whether each mask that the code takes is read."""
    original = run.subject.original
    code = forward_code(original) if isinstance(original, nn.Module) else code_of(original)
    source = source_of(code) if run.subject.is_whole else None
    if source is None or isinstance(source.tree, (ast.Lambda, ast.ClassDef)) or is_foreign(source.file):
        return
    nodes = [node for one in source.tree.body for node in ast.walk(one)]
    read = {node.id for node in nodes if isinstance(node, ast.Name)}
    taken = {one.arg: one.lineno for one in (*source.tree.args.args, *source.tree.args.kwonlyargs)}
    masks = [one.name for one in parameters_of(original) if MASKS.fullmatch(one.name) and type(one.default) is not bool]
    unread = [name for name in masks if name in taken and not read & {name, "locals"}]
    for name in unread[:1]:
        where = SourceLine(source.file, taken[name])
        yield Finding.named("mask-discarded", f"`{name}` is taken, and no line reads it", where)


def _read_only_in(run: Run, made: list[Operation]) -> str | None:
    """Return the first vector of parameters, such as a norm's, that a statement reads and nothing that is returned.

    A statement that reads matrices, too, throws away more than a part.
    """
    inside = {value.storage for operation in made for value in operation.inputs}
    returned = {value.storage for operation in run.in_order(run.returned) for value in operation.inputs}
    reads = {name: {value.storage for value in values} for name, values in run.parameter_reads.items()}
    read = [name for name, storages in reads.items() if storages & inside]
    if any(run.subject.parameters[name].dim() > 1 for name in read):
        return None
    return next((name for name in read if not reads[name] & returned), None)


def _bodies(run: Run, operations: list[Operation]) -> Iterator[Body]:
    for code in dict.fromkeys(code for operation in operations for code, _ in operation.frames):
        source = source_of(code)
        if source is not None and code is not run.subject.caller:
            yield Body(code, source, [one for one in operations if any(frame is code for frame, _ in one.frames)])


def _unread_values(run: Run, body: Body) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements of a function whose value nothing reads, and that in words."""
    for store, name in dead_stores(body.source):
        shape = _unread_shape(run, body.made_in(store))
        if shape:
            yield store, f"`{name}` {shape} is computed, and no line reads it"
        elif isinstance(store.value, ast.Name) and _is_of_tokens(body, store.value.id):
            yield store, f"`{name}` keeps `{store.value.id}`, and no line reads it"
    for store, names, unread in dead_parts(body.source):
        shape = _unread_shape(run, body.made_in(store)) if len(unread) == len(names) else ""
        if shape:
            listed = " and ".join(f"`{name}`" for name in names)
            yield store, f"{listed} are computed, the last {shape}, and no line reads them"
            continue
        part = _unread_part(run, body.made_in(store), names, unread)
        if part:
            yield store, f"{part}, one of {len(names)} parts, is never read"
    for node in dropped_results(body.source):
        made = body.made_in(node)
        computes = bool(made) and _computes(node.value, made[-1]) and all(_is_pure(body, one) for one in made)
        shape = _unread_shape(run, made) if computes else ""
        if shape:
            yield node, f"what this line computes, {shape}, is given no name"


def _unread_shape(run: Run, made: list[Operation]) -> str:
    """Return the shape of what a statement computed if it changes no output; "" if it does, or is no tensor."""
    unread = bool(made) and run.returned.isdisjoint(one.number for one in made) and not _is_made_again(run, made)
    numbers = unread and all(value.tensor.is_floating_point() for value in made[-1].outputs)
    return str(tuple(made[-1].outputs[0].tensor.shape)) if numbers and made[-1].outputs else ""


def _is_made_again(run: Run, made: list[Operation]) -> bool:
    """Return whether the output comes from the same numbers, of the same parameters, that are computed once more."""
    returned = run.in_order(run.returned)
    used = {value.storage for operation in returned for value in operation.inputs}
    parameters = run.parameter_storages
    read = {value.storage for operation in made for value in operation.inputs} & parameters
    made_here = [value.tensor for value in made[-1].outputs[:1]]
    alike = (value.tensor for one in returned if one.name == made[-1].name for value in one.outputs[:1])
    return read <= used and any(
        one.dtype == other.dtype and torch.equal(one, other) for one in alike for other in made_here
    )


def _unread_part(run: Run, made: list[Operation], names: list[str], unread: list[int]) -> str:
    """Describe a part of a tensor that is named beside others and changes no output; "" if there is none.

    A tensor that is also read as a whole has none.
    """
    others = [operation for operation in run.in_order(run.returned) if operation not in made]
    read = {value.number for operation in others for value in operation.inputs}
    for operation in (one for one in made if len(one.outputs) == len(names)):
        used = [value.number in read for value in operation.outputs]
        idle = next((at for at in unread if not used[at]), None)
        if idle is not None and any(used) and read.isdisjoint(value.number for value in operation.inputs):
            return f"`{names[idle]}` {tuple(operation.outputs[idle].tensor.shape)}"
    return ""


def _is_of_tokens(body: Body, name: str) -> bool:
    """Return whether statements of a function that name a variable compute something from tokens."""
    return any(name in names_in(operation.statement_in(body.code).source) for operation in body.operations)


def _computes(node: ast.expr, last: Operation) -> bool:
    """Return whether a statement's last operation is what it computes, and nothing that it gives to a call.

    A call that has no source in Python may keep what it is given, as `append` and `save_for_backward` do.
    """
    if not isinstance(node, ast.Call):
        return True
    given = [*node.args, *(one.value for one in node.keywords)]
    if not any(isinstance(one, (ast.Call, ast.BinOp)) for part in given for one in ast.walk(part)):
        return True
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    own = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "self"
    return own or called.rstrip("_") in last.name


def _is_pure(body: Body, operation: Operation) -> bool:
    """Return whether an operation, and the functions that a function called for it, write nothing that stays."""
    codes = [code for code, _ in operation.frames]
    called = [source_of(code) for code in codes[: codes.index(body.code)]]
    return not operation.in_place and all(source is not None and changes_nothing(source) for source in called)


@rule(of=Of.BOTH)
def check_gates_of_parameters(run: Run) -> Iterator[Finding]:
    """Whether gates that no token makes are applied."""
    read = {value.number for operation in run.in_order(run.returned) for value in operation.inputs}
    for body in _bodies(run, run.trace.operations):
        for node, evidence in _idle_gates(run, body, read):
            yield Finding.named("gate-unused", evidence, SourceLine(body.source.file, node.lineno))
            return


def _idle_gates(run: Run, body: Body, read: set[int]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements that make a gate which is none of the values `read`, as one of several parts or alone."""
    for store, name in dead_stores(body.source):
        shape = _unread_shape(run, body.made_in(store)) if GATE.search(name) else ""
        if shape:
            yield store, f"`{name}` {shape} is computed, and no line reads it"
    for node, names in named_parts(body.source):
        gates = [at for at, name in enumerate(names) if GATE.search(name)]
        cuts = [one.outputs for one in body.made_in(node) if len(one.outputs) == len(names)] if gates else []
        if not cuts or not all(any(part.number in read for part in parts) for parts in cuts):
            continue
        for at in gates:
            if all(parts[at].number not in read for parts in cuts):
                shape = tuple(cuts[0][at].tensor.shape)
                yield node, f"`{names[at]}` {shape}, one of {len(names)} parts, changes no output"


@rule(of=Of.WHOLE)
def check_given(run: Run) -> Iterator[Finding]:
    """Whether of two tensors that a module is given both are read."""
    for call in run.trace.calls:
        code = forward_code(call.module)
        if code is None or is_foreign(code.co_filename) or run.returned.isdisjoint(range(call.first, call.last)):
            continue
        source = source_of(code)
        given = {} if source is None else dict(_arguments(call, code))
        unread = [one for one in given if source and _is_unread(run, call, given[one], named=one in names_read(source))]
        for name in unread:
            twin = next((one for one in given if one not in unread and _are_twins(one, name)), None)
            if twin and source:  # without a twin it may be there because modules of another class take it
                shape = tuple(given[name].tensor.shape)
                evidence = f"`{name}` {shape} is given to the module and changes no output, unlike `{twin}`"
                yield Finding.named("value-unused", evidence, _line_of_argument(source, name))
                return


def _are_twins(name: str, other: str) -> bool:
    """Return whether two names differ in their roles alone, as `pos_k` and `pos_v`."""
    parts, others = name.split("_"), other.split("_")
    apart = [(one, two) for one, two in zip(parts, others, strict=False) if one != two]
    return len(parts) == len(others) and len(apart) == 1 and all(map(role_of, apart[0]))


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
