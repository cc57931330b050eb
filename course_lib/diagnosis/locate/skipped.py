"""Find what decided that a later piece skips a step that the prompt takes."""

import ast
from collections.abc import Iterator, Sequence
from types import CodeType

from course_lib.tracing import Operation, Source, SourceLine, source_of, statement_of

from .callers import arguments_of
from .sources import Assignment, assignments, last_line_of, names_in, nodes_in

Frame = tuple[CodeType, int]


def locate_skipped_step(step: Operation, later: Operation, caller: CodeType | None) -> SourceLine | None:
    """Find the `if` that keeps a later piece from a step, or the argument or assignment that decides it.

    Args:
        step: an operation of the prompt.
        later: an operation of the later piece, reached by the same function.
        caller: code that called the traced code, in which nothing is looked for.

    Returns:
        The line, which is that of the later operation if only the caller's arguments decide; None if no `if` does.
    """
    passed = [frame for frame in later.frames if frame[0] is not caller]
    codes = [code for code, _ in passed]
    shared = next((frame for frame in step.frames if frame[0] in codes), None)
    if shared is None:
        return None
    source, line = source_of(shared[0]), statement_of(*shared).line
    around = [one for one in nodes_in(source) if isinstance(one, ast.If) and _encloses(one, line)]
    if not around:
        return None
    innermost, inner = max(around, key=lambda one: one.lineno), codes.index(shared[0])
    if decisions := _decisions_of(innermost, passed[inner:]):
        return decisions[-1] or later.where
    beside = _encloses(innermost, statement_of(*passed[inner]).line) or isinstance(innermost.body[-1], ast.Return)
    return last_line_of(source, [] if beside else [innermost.lineno])


def locate_decision(node: ast.If, frames: Sequence[Frame]) -> SourceLine | None:
    """Find the line that gives a function the argument which an `if` tests and its block reads; None without one.

    Args:
        node: in the function of the first frame.
        frames: of an operation, from that function outwards, without those of the code's caller.
    """
    decisions = _decisions_of(node, frames)
    return decisions[-1] if decisions else None


def _decisions_of(node: ast.If, frames: Sequence[Frame]) -> list[SourceLine | None]:
    tested, read = _names_read(node.test), set().union(*map(_names_read, node.body))
    return list(_decisions(frames, tested if tested <= read else set()))


def _encloses(node: ast.If, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _names_read(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {"self"}


def _decisions(frames: Sequence[Frame], names: set[str]) -> Iterator[SourceLine | None]:
    """Yield the lines, from inside outwards, that decide an argument; None at last if the code's caller gives it.

    Args:
        frames: of the later piece, from the function with the test outwards.
        names: of the argument, which a test and the block under it read; of none if there are several.
    """
    for number, (code, _) in enumerate(frames):
        name = next(iter(names)) if len(names) == 1 else ""
        if name not in code.co_varnames[: code.co_argcount] or _assignments_of(name, source_of(code)):
            return
        if number + 1 == len(frames):
            yield None
            return
        outer = frames[number + 1]
        given = arguments_of(code, *outer).get(name)
        if given is None:
            return
        names = {given.id} if isinstance(given, ast.Name) else set()
        yield _line_of(source_of(outer[0]), given, statement_of(*outer).line)


def _assignments_of(name: str, source: Source | None) -> list[Assignment]:
    """Return the assignments to a name that don't only arrange what it holds, as `mask = mask[:, None]` does."""
    own = [one for one in assignments(source) if name in one.targets]
    return [one for one in own if name not in names_in(one.value) or isinstance(one.node.value, ast.IfExp)]


def _line_of(source: Source | None, given: ast.expr, line: int) -> SourceLine | None:
    """Find the last assignment above a call to the variable that is given, or else the line of the argument."""
    name = given.id if isinstance(given, ast.Name) else ""
    above = [one.line for one in _assignments_of(name, source) if one.end_line < line]
    return last_line_of(source, above or [given.lineno])
