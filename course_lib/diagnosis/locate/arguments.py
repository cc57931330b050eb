"""Find where an argument of a call was decided."""

import ast

from course_lib.diagnosis.measure import Subject
from course_lib.tracing import Operation, SourceLine

from .attributes import locate_attribute
from .sources import assignments, function_of, last_line_of, nodes_in


def locate_argument(operation: Operation, name: str, subject: Subject) -> SourceLine | None:
    """Find where a keyword argument of the call that ran an operation got its value; None if it has no such argument.

    That is the last assignment above to the variable that is passed, the one to the attribute, or else the line of the
    argument itself, which may be far below the first line of its call.
    """
    source, line = function_of(operation), operation.statement.line
    calls = [
        one for one in nodes_in(source) if isinstance(one, ast.Call) and one.lineno <= line <= (one.end_lineno or 0)
    ]
    given = [one.value for call in calls for one in call.keywords if one.arg == name]
    if not given:
        return None
    value = given[-1]
    if isinstance(value, ast.Name):
        above = [one.line for one in assignments(source) if value.id in one.targets and one.end_line < value.lineno]
        return last_line_of(source, above or [value.lineno])
    made = None
    if isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self":
        made = locate_attribute(subject, value.attr)
    return made or last_line_of(source, [value.lineno])
