"""Point at the first value that a reference does not compute."""

from collections.abc import Iterator

from course_lib.diagnosis.finding import AsExpected, Finding, Kind, error_message
from course_lib.diagnosis.locate import differing_lines, locate_difference
from course_lib.diagnosis.measure import Comparison, Difference, Run, SubjectFailed, compare
from course_lib.diagnosis.registry import Of, rule
from course_lib.tracing import Operation
from course_lib.wording import listed


@rule(of=Of.WHOLE)
def check_expectation(run: Run) -> Iterator[Finding | str]:
    """Whether it computes what the reference computes."""
    try:
        comparison = compare(run)
    except (SubjectFailed, RuntimeError) as error:
        yield Finding.unseen("`expect` can't be run on this x", error_message(error))
        return
    if comparison is None:
        return
    names = listed([f"`{name}`" for name in comparison.unlike[:3]])
    if names and not comparison.has_own_weights:
        yield f"no parameter was copied into `expect`, because not all names and shapes agree (as of {names})"
    if comparison.is_equal:
        yield AsExpected("it computes what `expect` computes")
        return
    found = comparison.difference()
    mine, right = tuple(comparison.run.output.tensor.shape), tuple(comparison.right.shape)
    if mine != right:
        yield Finding.unnamed(f"its output has the shape {mine}, and that of `expect` {right}", "the shapes differ")
        return
    if comparison.has_own_weights:
        evidence = f"not all names and shapes of the parameters agree (as of {names}), and their numbers differ, too"
        yield Finding.unseen("`expect` has weights of its own. Give it yours, or the same names", evidence)
        return
    evidence = f"{comparison.how}, " if comparison.how else ""
    evidence += f"its output is up to {found.output:.4g} off from that of `expect`"
    if found.operation is not None:
        evidence += _first_wrong(comparison, found, found.operation)
    changed = locate_difference(comparison, differing_lines(comparison), found.operation)
    if changed is not None:
        evidence += f"; {changed[1].said}"
    where = changed[0] if changed else found.operation.where if found.operation else None
    yield Finding.unnamed(Kind.NOT_AS_EXPECTED, evidence, where)


def _first_wrong(comparison: Comparison, found: Difference, operation: Operation) -> str:
    """Say which tensor the reference lacks, and which of its own is most like it."""
    shape = tuple(operation.outputs[0].tensor.shape)
    said = f"; `{operation.name}` makes the first tensor, of the shape {shape}, that `expect` never computes"
    maker = None if found.nearest is None else comparison.trace.operations[found.nearest.made_by or 0].where
    return said + (f" (the nearest, at {maker}, is up to {found.apart:.4g} apart)" if maker else "")
