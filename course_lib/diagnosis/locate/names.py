"""Find lines that give a value another name, or pass it where another one belongs."""

import ast
from collections.abc import Set
from itertools import pairwise

from course_lib.diagnosis.measure import role_of
from course_lib.tracing import Operation, SourceLine, line_at, source_of, statement_of

from .callers import arguments_of
from .sources import assignments, function_of, last_line_of, names_in

CASTS = ("to", "type", "type_as", "float", "double", "half", "bfloat16", "contiguous")


def locate_rename(operation: Operation, before: int | None = None) -> SourceLine | None:
    """Find the last line below an operation, in its function, that only renames a value: `a = b`, `a = b.to(x)`.

    Args:
        operation: above the line.
        before: a line below it, or None.
    """
    source, first = function_of(operation), operation.statement.line
    names = set(operation.statement.names)
    lines = []
    for one in assignments(source):
        only = isinstance(one.node, ast.Assign) and _is_unchanged(one.node.value) and len(one.targets) == 1
        if only and first < one.line < (before or one.line + 1) and (names_in(one.value) & names or before):
            lines.append(one.line)
        if one.line > first and names_in(one.value) & names:
            names |= one.targets
    return last_line_of(source, lines)


def _is_unchanged(value: ast.expr) -> bool:
    """Return whether an expression is a name, perhaps in another dtype."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in CASTS:
        value = value.func.value
    return isinstance(value, ast.Name)


def locate_passed(operation: Operation, right: str, wrong: str) -> SourceLine | None:
    """Find the call that passes a value of one role where another belongs, to a helper that names it rightly.

    Args:
        operation: inside the helper, whose statement names the right role.
        right, wrong: roles, such as "keys" and "values".
    """
    for (code, _), outer in pairwise(operation.frames):
        for name, given in arguments_of(code, *outer).items():
            if role_of(name) == right and isinstance(given, ast.Name) and role_of(given.id) == wrong:
                return line_at(statement_of(*outer))
    for depth, frame in enumerate(operation.frames):
        statement = statement_of(*frame)
        roles = {role_of(name) for name in names_in(statement.source)}
        if right not in roles:
            return line_at(statement) if depth and wrong in roles else None
    return None


def locate_renamed_role(operation: Operation, unused: Set[str]) -> SourceLine | None:
    """Find the last statement above an operation, as `v = k`, that gives a name of an unused role to another role.

    A default, as `if value is None: value = query`, whose two names are arguments, is about tokens and no role.
    """
    for code, _ in operation.frames:
        source = source_of(code)
        lines = []
        for one in assignments(source):
            only = isinstance(one.node, ast.Assign) and isinstance(one.node.value, ast.Name) and len(one.targets) == 1
            given, meant = role_of(one.value), role_of(next(iter(one.targets), ""))
            if (
                only
                and not {one.value, *one.targets} <= set(code.co_varnames[: code.co_argcount])
                and given
                and meant in unused
                and given != meant
            ):
                lines.append(one.line)
        if lines:
            return last_line_of(source, lines)
    return None
