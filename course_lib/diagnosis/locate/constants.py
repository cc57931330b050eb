"""Find where a number was set that a statement multiplies by."""

import re

from course_lib.tracing import Operation, SourceLine, Value

from .sources import assignments_above, function_of, last_line_of

OF_SCALE = re.compile(r"scal|temperature|temper|factor|multipl|sqrt|norm", re.I)


def number_of(operation: Operation) -> float | None:
    """Return the number that an operation multiplies by; None if it is none."""
    factor = operation.args[1] if len(operation.args) > 1 else None
    if isinstance(factor, Value):
        tensor = factor.tensor
        factor = float(tensor) if tensor.dim() == 0 and not tensor.is_complex() else None
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not factor:
        return None
    return 1 / factor if operation.name.startswith("div") else float(factor)


def locate_number(operation: Operation) -> SourceLine | None:
    """Find the last line above an operation that sets the scale, by its name, in its statement; None without one."""
    named = [one for one in assignments_above(operation) if any(map(OF_SCALE.search, one.targets))]
    return last_line_of(function_of(operation), [one.line for one in named if len(one.targets) == 1])
