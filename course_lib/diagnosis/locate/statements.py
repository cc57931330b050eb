"""Find statements around an operation: its own, those above and those below."""

import ast
import re
from collections.abc import Callable

from course_lib.diagnosis.measure import Subject
from course_lib.tracing import (
    Operation,
    Source,
    SourceLine,
    Statement,
    enclosing_comprehension,
    line_at,
    source_of,
    statement_of,
)

from .sources import (
    assignments,
    assignments_above,
    forward_of,
    function_of,
    last_line_of,
    nodes_in,
    returns_below,
    returns_in,
)

AUGMENTED = re.compile(r"[\w.\[\], ]+ (\*\*|//|<<|>>|[-+*/@%&|^])= ")  # which reads its own target


def lines_from_forward(operation: Operation, subject: Subject) -> list[SourceLine]:
    """Return the lines that led to an operation, from the outermost forward of a module inwards."""
    forwards = {getattr(type(module).forward, "__code__", None) for module in subject.modules.values()}
    inside = [number for number, (code, _) in enumerate(operation.frames) if code in forwards]
    frames = operation.frames[: inside[-1] + 1] if inside else operation.frames
    found = (line_at(statement_of(*frame)) for frame in reversed(frames))
    return [line for line in found if line is not None]


def locate_assignment(operation: Operation, pattern: str) -> SourceLine | None:
    """Find the last line above an operation that sets a name of its statement to code that matches a pattern."""
    lines = [one.line for one in assignments_above(operation) if re.search(pattern, one.value)]
    return last_line_of(function_of(operation), lines)


def locate_read(operation: Operation, wanted: Callable[[str], bool], excluded: set[SourceLine]) -> SourceLine | None:
    """Find the first line below an operation, in the subject's own forward, that reads a wanted name."""
    source, line = forward_of(operation), operation.statement.line
    names = [node for node in nodes_in(source) if isinstance(node, ast.Name) and node.lineno > line]
    for node in sorted(names, key=lambda node: node.lineno):
        read = last_line_of(source, [node.lineno])
        if isinstance(node.ctx, ast.Load) and wanted(node.id) and read not in excluded:
            return read
    return None


def locate_unmixed_return(operation: Operation, wanted: Callable[[str], bool]) -> SourceLine | None:
    """Find the `return` below an operation, in its own helper function, that returns a wanted name as it is."""
    for node in returns_below(operation) if len(operation.frames) > 1 else ():
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        if any(isinstance(part, ast.Name) and wanted(part.id) for part in parts):
            return last_line_of(function_of(operation), [node.lineno])
    return None


def locate_returned_argument(operation: Operation) -> SourceLine | None:
    """Find the `return` below an operation, in its own helper function, that gives an argument back as it came."""
    code = operation.code
    if code is None or len(operation.frames) < 2:
        return None
    arguments = set(code.co_varnames[: code.co_argcount])
    arguments -= {name for one in assignments(function_of(operation)) for name in one.targets}
    for node in returns_below(operation):
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        if any(isinstance(part, ast.Name) and part.id in arguments for part in parts):
            return last_line_of(function_of(operation), [node.lineno])
    return None


def locate_return(operation: Operation) -> SourceLine | None:
    """Find the last `return` of the forward that an operation ran in; its last line where there is none."""
    return _locate_last_return(forward_of(operation)) or line_at(operation.outermost_statement)


def locate_missing_return(operation: Operation) -> SourceLine | None:
    """Find where code lacks a return: a `return` in a branch, or the last line of a function without one."""
    for code, _ in reversed(operation.frames):  # from forward inwards, because a helper may lack the return
        source = source_of(code)
        if not isinstance(_last_statement(source), ast.Return) and (line := _locate_last_return(source)):
            return line
    return line_at(operation.outermost_statement)


def _locate_last_return(source: Source | None) -> SourceLine | None:
    """Find the last `return` of a function, or else its last statement; None for a lambda."""
    last = _last_statement(source)
    return last_line_of(source, [node.lineno for node in returns_in(source)] or [last.lineno]) if last else None


def _last_statement(source: Source | None) -> ast.stmt | None:
    return None if source is None or isinstance(source.tree, ast.Lambda) else source.tree.body[-1]


def locate_return_after(operation: Operation) -> SourceLine | None:
    """Find the first `return` below an operation, in its own function."""
    return last_line_of(function_of(operation), [node.lineno for node in returns_below(operation)[:1]])


def locate_fixed_loop(line: SourceLine | None, operation: Operation) -> SourceLine | None:
    """Find the loop with a fixed number of iterations around a line of an operation's forward."""
    source = forward_of(operation)
    if source is None or line is None:
        return None
    for node in ast.walk(source.tree):
        if isinstance(node, ast.For) and node.lineno < line.line <= (node.end_lineno or 0):
            iterated = ast.unparse(node.iter)
            if iterated.startswith("range(") and not re.search(r"shape|size\(|len\(", iterated):
                return SourceLine(source.file, node.lineno)
    return None


def locate_discarded(operation: Operation) -> SourceLine | None:
    """Find the innermost statement that makes an operation's result and neither returns it nor has it read, or None."""
    for frame in operation.frames:
        if frame[0].co_name.startswith("<"):  # a comprehension: the statement around it counts
            continue
        statement = enclosing_comprehension(*frame)
        if not statement.source.startswith("return") and not _is_read(source_of(frame[0]), statement):
            return line_at(statement)
    return None


def _is_read(source: Source | None, statement: Statement) -> bool:
    """Return whether a name that a statement assigns is read anywhere but in its own line; True if it is not known."""
    named = {name for name in statement.names if name}
    if source is None or not named:
        return bool(named) or bool(AUGMENTED.match(statement.source))
    reads = (one for one in ast.walk(source.tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
    return any(one.id in named and one.lineno != statement.line for one in reads)
