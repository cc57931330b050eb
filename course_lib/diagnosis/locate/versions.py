"""Choose, of the lines in which code differs from its reference, the one that a wrong value comes from."""

from collections.abc import Iterable

from course_lib.diagnosis.measure import Comparison
from course_lib.tracing import Operation, SourceLine, Trace, end_of, source_of

from .changed_lines import Change, changed_lines

Found = tuple[SourceLine, Change]


def differing_lines(comparison: Comparison) -> list[Change]:
    """Return the lines in which the code differs from its reference; none if they are no versions of one text."""
    traces = comparison.run.trace, comparison.trace
    return changed_lines(comparison.run.subject.original, comparison.run.options.expect, *map(_functions_of, traces))


def locate_difference(comparison: Comparison, changes: list[Change], wrong: Operation | None) -> Found | None:
    """Find the changed line that the first wrong value comes from; None without changes.

    That is a line around the operation itself, or else of the last one that it depends on; else one that makes no
    tensor, such as a size, first in the functions around these operations and then in others, such as constructors;
    else one that runs later. What the reference has and the code lacks is the last choice, at the line before it.

    Args:
        comparison: of the code with its reference.
        changes: the lines that differ.
        wrong: the operation that makes the first wrong value; None if all values are right, but not the output.
    """
    trace, made = comparison.run.trace, comparison.run.output.made_by
    start = trace.operations[made] if wrong is None and made is not None else wrong
    if start is None:
        return None
    before = [start, *(trace.operations[one] for one in sorted(trace.ancestors(start.inputs), reverse=True))]
    gaps, present = [one for one in changes if one.is_gap], [one for one in changes if not one.is_gap]
    idle = [one for one in present if _in_statement([one], trace.operations) is None]
    return (
        _in_statement(present, before)
        or _in_function(idle, before)
        or _first(idle)
        or _in_statement(present, trace.operations)
        or _in_function(gaps, before)
        or _first(gaps)
    )


def _functions_of(trace: Trace) -> set:
    return {code for operation in trace.operations for code, _ in operation.frames}


def _in_statement(changes: list[Change], operations: Iterable[Operation]) -> Found | None:
    """Return the changed line in the first statement that led to an operation."""
    for operation in operations:
        for statement in operation.statements:
            for change in changes:
                if statement.file == change.file and statement.line in change.pointed:
                    return SourceLine(change.file, change.pointed[statement.line]), change
    return None


def _in_function(changes: list[Change], operations: Iterable[Operation]) -> Found | None:
    """Return the last change in the innermost function around the first operation that has one, above it."""
    for operation in operations if changes else ():
        for statement, (code, _) in zip(operation.statements, operation.frames, strict=True):
            source = source_of(code)
            inside = () if source is None else range(source.tree.lineno, end_of(source.tree)[0] + 1)
            here = [one for one in changes if one.file == statement.file and one.lines[0] in inside]
            above = [one for one in here if one.lines[0] <= statement.line]
            if here:
                return _first(above[-1:] or here)
    return None


def _first(changes: list[Change]) -> Found | None:
    return (SourceLine(changes[0].file, changes[0].lines[0]), changes[0]) if changes else None
