"""Find lines that give a value another name, or pass it where another one belongs."""

import ast
from collections.abc import Set

from course_lib.diagnosis.measure import role_of
from course_lib.tracing import Operation, SourceLine, line_at, source_of, statement_of

from .sources import assignments, function_of, last_line_of, names_in


def locate_rename(operation: Operation, before: int | None = None) -> SourceLine | None:
    """Find the last line below an operation, in its function, that only gives a value another name: `a = b`.

    Args:
        operation: above the line.
        before: a line below it, or None.
    """
    source, first = function_of(operation), operation.statement.line
    names = set(operation.statement.names)
    lines = []
    for one in assignments(source):
        only = isinstance(one.node, ast.Assign) and isinstance(one.node.value, ast.Name) and len(one.targets) == 1
        if only and first < one.line < (before or one.line + 1) and (one.value in names or before):
            lines.append(one.line)
        if one.line > first and names_in(one.value) & names:
            names |= one.targets
    return last_line_of(source, lines)


def locate_passed(operation: Operation, right: str, wrong: str) -> SourceLine | None:
    """Find the call that passes a value of one role where another belongs, to a helper that names it rightly.

    Args:
        operation: inside the helper, whose statement names the right role.
        right, wrong: roles, such as "keys" and "values".
    """
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
