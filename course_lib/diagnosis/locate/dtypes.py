"""Find the line that fixes a tensor to a dtype."""

import torch

from course_lib.diagnosis.measure import Attempt
from course_lib.tracing import Operation, SourceLine, Trace


def locate_pinned(attempt: Attempt, dtype: torch.dtype) -> SourceLine | None:
    """Run code in a dtype and find the line that combines the tokens with a tensor of a different dtype.

    Of several, it is the first that leads to an output of the other dtype or to the operation that refuses it: what is
    cast back is right.
    """
    trace, _ = attempt.subject.trace(attempt.x.to(dtype), attempt.subject.copy(dtype))
    other = [operation for operation in trace.operations if _makes_other_dtype(operation, dtype)]
    for operation in _not_cast_back(trace, other) or other:
        inputs = [value for value in operation.inputs if value.tensor.is_floating_point()]
        if any(value.tensor.dtype == dtype for value in inputs):
            made = [value.made_by for value in inputs if value.tensor.dtype != dtype and value.made_by is not None]
            return (locate_made(trace, trace.operations[made[0]]) if made else None) or operation.where
    return next((operation.where for operation in other if operation.where), None)


def _not_cast_back(trace: Trace, other: list[Operation]) -> list[Operation]:
    """Return the operations in another dtype that lead, in it, to the output or to the last result that none reads."""
    numbers = {operation.number for operation in other}
    read = {value.number for operation in trace.operations for value in operation.inputs}
    unread = [value for operation in other for value in operation.outputs if value.number not in read]
    waiting = [trace.output] if trace.output is not None else unread[-1:]
    found: set[int] = set()
    while waiting:
        for number in trace.writers_of(waiting.pop(), len(trace.operations)):
            if number in numbers - found:
                found.add(number)
                waiting += trace.operations[number].inputs
    return [operation for operation in other if operation.number in found]


def _makes_other_dtype(operation: Operation, dtype: torch.dtype) -> bool:
    made = [value.tensor.dtype for value in operation.outputs if value.tensor.is_floating_point()]
    return bool(made) and made[0] != dtype


def locate_made(trace: Trace, operation: Operation) -> SourceLine | None:
    """Find where a constant was made, before operations that only convert it."""
    while True:
        inputs = [v for v in operation.inputs if v.tensor.is_floating_point() and v.made_by is not None]
        if not inputs or inputs[0].made_by is None or inputs[0].tensor.dtype != operation.outputs[0].tensor.dtype:
            return operation.where
        operation = trace.operations[inputs[0].made_by]
