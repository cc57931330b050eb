"""Find the argument by which a caller, or a constructor's caller, decided a number that a function only reads."""

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType

from torch import nn

from course_lib.diagnosis.measure import Subject
from course_lib.tracing import Operation, SourceLine, call_at, source_of

from .attributes import own_classes, statements_that_set
from .sources import assignments, function_of, last_line_of, nodes_in

OF_SCALE = re.compile(r"scal|temperature|temper|factor|multipl|sqrt|norm", re.I)
OF_START = re.compile(r"offset|start|begin|pos|past|cache|shift|step|\bt0\b", re.I)
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)  # statements without a block
NUMERIC = {"sqrt", "rsqrt", "pow", "float", "int", "tensor"}  # functions that a number may go through


def locate_number_given(operation: Operation) -> SourceLine | None:
    """Find the argument that gives a helper function the number that an operation's statement reads.

    A helper that passes it on is followed to its own caller.
    """
    wanted = factors_in(operation)
    found = None
    for (code, _), outer in pairwise(operation.frames):
        bound = arguments_of(code, *outer)
        given = [bound[name] for name in wanted if name in bound]
        if not given:
            return found
        found = last_line_of(source_of(outer[0]), [given[0].lineno])
        wanted = {given[0].id} if isinstance(given[0], ast.Name) else set()
    return found


def locate_flag(operation: Operation) -> SourceLine | None:
    """Find the call that gives a helper function, as a constant, the argument which an operation's statement obeys.

    None if the statement computes with the argument, as `diagonal + 1` does, because then it may be at fault itself.
    """
    for (code, _), outer in list(pairwise(operation.frames))[:1]:
        source, line = source_of(code), operation.statement.line
        simple = [
            one for one in nodes_in(source) if isinstance(one, SIMPLE) and one.lineno <= line <= (one.end_lineno or 0)
        ]
        obeyed = {name for one in simple for node in ast.walk(one) for name in _obeyed_in(node)}
        given = {name: one for name, one in arguments_of(code, *outer).items() if name in obeyed}
        constants = [one for one in given.values() if isinstance(one, ast.Constant)]
        if constants:
            return last_line_of(source_of(outer[0]), [constants[0].lineno])
    return None


def _obeyed_in(node: ast.AST) -> set[str]:
    """Return the names that a node tests, or passes on as they are by a keyword."""
    tested = [node.test] if isinstance(node, ast.IfExp) else []
    passed = [node.value] if isinstance(node, ast.keyword) else []
    return {one.id for one in (*tested, *passed) if isinstance(one, ast.Name)}


def locate_request(operation: Operation) -> SourceLine | None:
    """Find the line that asks for positions: the call of a helper that counts from zero, or the operation's own line.

    A helper that gets where to begin, from an argument or from its module, is itself at fault.
    """
    line = operation.where
    for (code, _), outer in pairwise(operation.frames):
        names = code.co_varnames[: code.co_argcount]
        if names[:1] == ("self",) or any(map(OF_START.search, names)):
            break
        call = call_at(*outer)
        line = line if call is None else last_line_of(source_of(outer[0]), [call.lineno])
    return line


def factors_in(operation: Operation) -> set[str]:
    """Return the names that an operation's statement divides by, takes the root or a power of, or calls a scale."""
    source, line = function_of(operation), operation.statement.line
    tensors = {name for node in nodes_in(source) for name in _tensors_in(node)}
    simple = (
        one for one in nodes_in(source) if isinstance(one, SIMPLE) and one.lineno <= line <= (one.end_lineno or 0)
    )
    return {name for one in simple for node in ast.walk(one) for name in _factors_in(node)} - tensors


def _factors_in(node: ast.AST) -> Iterator[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] in NUMERIC:
        yield from names
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        right = node.right if isinstance(node, ast.BinOp) else node.value
        divides = isinstance(node.op, ast.Div)
        yield from (one.id for one in ast.walk(right) if divides and isinstance(one, ast.Name))
        yield from (one for one in names if isinstance(node.op, ast.Pow) or OF_SCALE.search(one))


def locate_lone_number(operation: Operation) -> SourceLine | None:
    """Find where a variable was set that holds a number and is read in an operation's statement and nowhere else.

    Of several sizes that are unpacked from a shape none is set: what is wrong is its use.
    """
    source, line = function_of(operation), operation.statement.line
    reads = [one.id for one in nodes_in(source) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
    lone = {name for name in factors_in(operation) if reads.count(name) == 1}
    before = [one for one in assignments(source) if one.line < line and one.targets & lone]
    return last_line_of(source, [one.line for one in before if len(one.targets - {"_"}) == 1])


def locate_constructed(subject: Subject, name: str) -> SourceLine | None:
    """Find the argument of the constructor's call that an attribute was set to as it is: `self.scale = scale`.

    Of several calls, it is the one that made the module of the attribute.
    """
    code, whole = subject.code, dict[str, nn.Module]()
    whole = dict(code.named_modules()) if isinstance(code, nn.Module) else whole
    classes = own_classes(whole.values())
    for source, node in statements_that_set(subject, name):
        value = getattr(node, "value", None)
        for cls in own_classes(subject.modules.values()):
            if not isinstance(value, ast.Name) or source != source_of(cls):
                continue
            given = [
                (targets, SourceLine(file, bound[value.id].lineno))
                for file, targets, call in _calls_of(classes, cls.__name__)
                if value.id in (bound := _bound(inspect.unwrap(cls.__init__).__code__, call))
            ]
            made = {
                f"self.{part}" for path, one in whole.items() if _has(subject, one, name) for part in path.split(".")
            }
            own = [line for targets, line in given if targets & made] if len(given) > 1 else [line for _, line in given]
            if len(own) == 1:
                return own[0]
    return None


def _has(subject: Subject, module: nn.Module, name: str) -> bool:
    """Return whether a module is one of the subject's and has an attribute of its own of this name."""
    return name in vars(module) and any(module is one for one in subject.modules.values())


def _calls_of(classes: list[type], name: str) -> Iterator[tuple[str, frozenset[str], ast.Call]]:
    """Yield the file, the targets and the call of each assignment in some classes that calls a class."""
    for source in filter(None, map(source_of, classes)):
        for one in assignments(source):
            for node in ast.walk(one.node):
                if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] == name:
                    yield source.file, one.targets, node


def _tensors_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node uses as more than a number: `x.shape`, `x[0]`, `a @ b`, `f(x)`."""
    used: list[ast.AST] = []
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        used = [node.value]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        used = [node.left, node.right]
    elif isinstance(node, ast.Call):
        called = ast.unparse(node.func).rsplit(".", 1)[-1]
        used = [] if called in NUMERIC else [*node.args, *(one.value for one in node.keywords)]
    yield from (one.id for one in used if isinstance(one, ast.Name))


def arguments_of(code: CodeType, caller: CodeType, instruction: int) -> dict[str, ast.expr]:
    """Return what a caller's instruction gives to a function, by the names of parameters, as far as it is written."""
    return _bound(code, call_at(caller, instruction))


def _bound(code: CodeType, call: ast.Call | None) -> dict[str, ast.expr]:
    """Return the arguments of a call by the names of a function's parameters, as far as they are written out."""
    if call is None or any(isinstance(one, ast.Starred) for one in call.args):
        return {}
    names = code.co_varnames[: code.co_argcount]
    names = names[1:] if names[:1] in (("self",), ("cls",)) else names
    given = dict(zip(names, call.args, strict=False))
    return given | {one.arg: one.value for one in call.keywords if one.arg}
