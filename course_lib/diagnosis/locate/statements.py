"""Find statements around an operation: its own, those above and those below."""

import ast
import re
from collections.abc import Callable

from course_lib.calling import forward_code
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
    names_in,
    nodes_in,
    returns_below,
    returns_in,
)

ARGUMENTS = re.compile(r"(\w)\([^()]*(?:\([^()]*\)[^()]*)*\)")  # of a call, which may hold other calls
AUGMENTED = re.compile(r"[\w.\[\], ]+ (\*\*|//|<<|>>|[-+*/@%&|^])= ")  # which reads its own target


def lines_from_forward(operation: Operation, subject: Subject) -> list[SourceLine]:
    """Return the lines that led to an operation, from the outermost forward of a module inwards."""
    forwards = {forward_code(module) for module in subject.modules.values()}
    inside = [number for number, (code, _) in enumerate(operation.frames) if code in forwards]
    frames = operation.frames[: inside[-1] + 1] if inside else operation.frames
    found = (line_at(statement_of(*frame)) for frame in reversed(frames))
    return [line for line in found if line is not None]


def locate_assignment(operation: Operation, pattern: str, *, in_calls: bool = True) -> SourceLine | None:
    """Find the last line above an operation that sets a name of its statement to code that matches a pattern.

    Unless `in_calls`, arguments of calls don't count.
    """
    values = (
        (one.line, one.value if in_calls else ARGUMENTS.sub(r"\1", one.value)) for one in assignments_above(operation)
    )
    lines = [line for line, value in values if re.search(pattern, value)]
    return last_line_of(function_of(operation), lines)


def locate_next_use(operation: Operation, last: Operation) -> SourceLine | None:
    """Find the first statement below an operation that sets a name to code that reads what its statement sets.

    None if `last` runs in another function or above it. A branch without `last` does not count.
    """
    names = set(operation.statement.names)
    between = range(operation.statement.line + 1, last.statement.line) if last.code is operation.code else ()
    source = function_of(operation)
    uses = {one.line for one in assignments(source) if names & names_in(one.value)}
    branches = [range(one.lineno, (one.end_lineno or 0) + 1) for one in nodes_in(source) if isinstance(one, ast.If)]
    taken = [line for line in uses if all(last.statement.line in one for one in branches if line in one)]
    return last_line_of(source, sorted(set(taken).intersection(between))[:1])


def sets_new_name(operation: Operation) -> bool:
    """Return whether an operation's statement gives a new name to what it reads, as to the weights that it makes."""
    found = [one for one in assignments(function_of(operation)) if one.line == operation.statement.line]
    return any(one.names and not one.names & names_in(one.value) for one in found)


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
    """Find the line below an operation, in its own helper function, that returns or renames a wanted name as it is."""
    source, line = function_of(operation), operation.statement.line
    if len(operation.frames) < 2:
        return None
    renames = [one.node for one in assignments(source) if one.line > line and isinstance(one.node, ast.Assign)]
    for node in (*returns_below(operation), *renames):
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        if any(isinstance(part, ast.Name) and wanted(part.id) for part in parts):
            return last_line_of(source, [node.lineno])
    return None


def locate_returned_argument(operation: Operation) -> SourceLine | None:
    """Find the line of an operation's own helper function that gives an argument back as it came.

    That is a `return` below the operation, or what gives the argument the name that is returned: `k_turned = k`.
    """
    code, source = operation.code, function_of(operation)
    if code is None or len(operation.frames) < 2:
        return None
    arguments = set(code.co_varnames[: code.co_argcount])
    arguments -= {name for one in assignments(source) for name in one.targets}
    renamed = {name: one.line for one in assignments(source) if one.value in arguments for name in one.targets}
    for node in returns_below(operation):
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        lines = [renamed.get(name, node.lineno) for name in names if name in arguments or name in renamed]
        if lines:
            return last_line_of(source, lines)
    return None


def locate_return(operation: Operation, beside: Operation | None = None) -> SourceLine | None:
    """Find the last `return` of the forward that an operation ran in; its last line where there is none.

    With `beside`, it is the innermost function that both operations ran in.
    """
    codes = {code for code, _ in beside.frames} if beside else set()
    shared = next((code for code, _ in operation.frames if code in codes), None)
    return _locate_last_return(source_of(shared) or forward_of(operation)) or line_at(operation.outermost_statement)


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
    """Find the innermost statement that makes an operation's result and neither returns it nor has it read, or None.

    What a function writes into an argument is its caller's.
    """
    for number, frame in enumerate(operation.frames):
        if frame[0].co_name.startswith("<"):  # a comprehension: the statement around it counts
            continue
        statement = enclosing_comprehension(*frame)
        written = statement.written.partition(".")[0].partition("[")[0]
        if number + 1 < len(operation.frames) and written in frame[0].co_varnames[: frame[0].co_argcount]:
            continue
        if not statement.source.startswith("return") and not _is_read(source_of(frame[0]), statement):
            return line_at(statement)
    return None


def _is_read(source: Source | None, statement: Statement) -> bool:
    """Return whether all names that a statement assigns are read anywhere but in its own line, as far as is known."""
    named = {name for name in statement.names if name}
    if source is None or not named:
        return bool(named) or bool(AUGMENTED.match(statement.source))
    reads = (one for one in ast.walk(source.tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
    return named <= {one.id for one in reads if one.lineno != statement.line}
