"""Find where a number was set that a statement multiplies by."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from course_lib.diagnosis.measure import SCALINGS, SoftmaxPath, Structure, Subject, number_of
from course_lib.tracing import Operation, SourceLine, Trace, Value, source_of

from .arguments import locate_argument
from .attributes import attributes_in, attributes_read, locate_attribute
from .callers import OF_SCALE, locate_constructed, locate_lone_number, locate_number_given
from .masks import skipped_blocks
from .sources import assignments_above, function_of, last_line_of

SCALES = re.compile(r"sqrt|\*\* ?\(?-?0?\.5|scal|temper")
EXACT = 1e-6
POWERS = (1, -1, 0.5, -0.5, 2)  # of a number, in the factor that an operation multiplies by


def locate_number(operation: Operation) -> SourceLine | None:
    """Find the last line above an operation that sets the scale, by its name, in its statement; None without one."""
    named = [one for one in assignments_above(operation) if any(map(OF_SCALE.search, one.targets))]
    return last_line_of(function_of(operation), [one.line for one in named if len(one.targets) == 1])


def _scalings(path: SoftmaxPath) -> list[Operation]:
    """Return the operations that multiply scores, queries or keys by a number."""
    structure, on_input = path.scores.structure, path.scores.dependence.on_input
    before = structure.ancestors_of([value for value, _ in structure.score_products[0].sides()])
    found = [operation for operation in (*path.operations, *before) if operation.name in SCALINGS]
    return [one for one in found if not any(v.tensor.dim() and not on_input(v) for v in one.inputs)]


def locate_scaling(path: SoftmaxPath) -> SourceLine | None:
    """Find the first line that multiplies scores, queries or keys by a number, or else that of the score product."""
    scalings = _scalings(path)
    operation = next(iter(scalings), path.scores.structure.score_products[0].operation)
    right = path.scores.structure.head_dim**-0.5
    rights = [right**0.5] if _are_parallel(path.trace, scalings) else [right, right**0.5]
    return _locate_wrong_number(path.scores.structure, operation, rights) or operation.where


def locate_unused_scaling(path: SoftmaxPath) -> SourceLine | None:
    """Find the line that scales scores, queries or keys and throws the result away; None without one."""
    structure, run = path.scores.structure, path.scores.run
    known = {value.number for value, _ in structure.score_products[0].sides()}
    known |= {
        one.number
        for op in structure.ancestors_of([v for v, _ in structure.score_products[0].sides()])
        for one in op.outputs
        if structure.is_projected(one)
    }
    for operation in path.trace.operations:
        unused = operation.name in SCALINGS and operation.number not in run.live
        reads = unused and any(v.number in known or path.scores.reaches(v) for v in operation.inputs[:1])
        if reads and number_of(operation) is not None:
            return operation.where
    return None


def locate_skipped_scaling(path: SoftmaxPath) -> SourceLine | None:
    """Find where the flag was set of an `if` whose block would scale the scores and did not run, or else the `if`."""
    product, subject = path.scores.structure.score_products[0].operation, path.scores.run.subject
    for node in skipped_blocks(product, path.trace, set(product.statement.names), SCALES):
        attribute = re.fullmatch(r"self\.(\w+)", ast.unparse(node.test))
        made = locate_attribute(subject, attribute[1]) if attribute else None
        return made or last_line_of(function_of(product), [node.lineno])
    return None


def locate_sum_of_products(path: SoftmaxPath) -> SourceLine | None:
    """Find the line that adds two products of tokens, which is the first that both go through; None without one."""
    compared = {product.out.number for product in path.scores.structure.products}
    for operation in path.operations:
        added = [value for value in operation.inputs if path.scores.dependence.on_input(value)]
        if operation.name in ("add", "add_") and len(added) == 2:
            both = all(value.number in compared or _comes_from(path, value, compared) for value in added)
            return operation.where if both else None
    return None


def _comes_from(path: SoftmaxPath, value: Value, compared: set[int]) -> bool:
    """Return whether a value is a score product whose numbers were only arranged anew."""
    ancestors = path.trace.ancestors([value])
    own = [one for one in path.trace.operations if one.number in ancestors and one.outputs]
    return any(
        one.outputs[0].number in compared and one.outputs[0].tensor.numel() >= value.tensor.numel() for one in own
    )


def _are_parallel(trace: Trace, scalings: list[Operation]) -> bool:
    """Return whether queries and keys are scaled, and not one of them or the scores twice."""
    if len(scalings) != 2:
        return False
    first, second = sorted(one.number for one in scalings)
    return second not in trace.descendants({first})


def locate_idle_scaling(path: SoftmaxPath) -> SourceLine | None:
    """Find where the 1 was set that scores, queries or keys are multiplied by; None without one."""
    idle = (operation for operation in _scalings(path) if number_of(operation) == 1)
    lines = (_locate_wrong_number(path.scores.structure, one, []) or one.where for one in idle)
    return next(filter(None, lines), None)


def _locate_wrong_number(structure: Structure, operation: Operation, rights: list[float]) -> SourceLine | None:
    """Find where the number was set that the statement scales with, unless it is right and its use is wrong.

    Factors in `rights` are right, and so is the number that makes them.
    """
    factor, right = number_of(operation), structure.head_dim**-0.5
    if factor is not None and any(abs(factor / one - 1) < EXACT for one in rights):
        return None
    for name, value in _attributes_around(operation, structure.run.subject):
        number = float(value) if isinstance(value, Tensor) and value.dim() == 0 else value
        if isinstance(number, int) and not isinstance(number, bool) and OF_SCALE.search(name):
            number = float(number)
        if not isinstance(number, float) or number <= 0:
            continue
        meant = factor is None or any(abs(factor / number**power - 1) < 1e-5 for power in POWERS)
        if meant and min(abs(number / right - 1), abs(number * right - 1)) > 1e-5:
            return locate_constructed(structure.run.subject, name) or locate_attribute(structure.run.subject, name)
    return _locate_variable(operation, factor, structure.head_dim) or (
        locate_argument(operation, "scale", structure.run.subject) or locate_number(operation)
    )


def _locate_variable(operation: Operation, factor: float | None, head_dim: int) -> SourceLine | None:
    """Find where a number was decided that only this statement reads: an argument, or a variable.

    None if that number is head_dim or its root, so that it is its use that is wrong.
    """
    rooted = re.search(r"sqrt|0?\.5\b", operation.statement.source)
    number = None if factor is None else factor**2 if rooted else factor
    if number is None or any(
        abs(number * one - 1) < 1e-5 for one in (head_dim, 1 / head_dim, head_dim**0.5, head_dim**-0.5)
    ):
        return None
    lone = locate_lone_number(operation)
    beside = lone is not None and operation.statement.line - lone.line <= 1  # then the statement shows both
    return locate_number_given(operation) or (None if beside else lone)


def _attributes_around(operation: Operation, subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the attributes that a statement reads, then of those with the name of a scale that
    the functions around it read, which may have passed it on."""
    yield from attributes_read(operation, subject)
    for source in filter(None, (source_of(code) for code, _ in operation.frames)):
        yield from (pair for pair in attributes_in(ast.unparse(source.tree), subject) if OF_SCALE.search(pair[0]))
