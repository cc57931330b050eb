"""A module must compute the same on all of its paths, and hide the future on each."""

from collections.abc import Iterator

import torch

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import (
    SOFTMAXES,
    Attention,
    FreshRuns,
    OtherPath,
    Run,
    Subject,
    SubjectFailed,
    other_paths,
    usual_call,
)
from course_lib.diagnosis.registry import rule
from course_lib.tracing import SourceLine, line_at

SAME = 1e-7


@rule(order=500)
def check_paths(attention: Attention, fresh: FreshRuns) -> Iterator[Finding]:
    """Whether other paths agree."""
    run = fresh.run
    right = bool((attention.seen == attention.expected).all())
    for path in other_paths(run):
        try:
            if run.options.causal and right and path.sees_the_future(run.x):
                evidence = f"{path.name}, a change of the last token changes the outputs of earlier ones"
                yield Finding.named("mask-lost-on-option", evidence, _locate(run, path, masked=True))
                return
        except SubjectFailed:
            continue
        apart = 0.0 if path.training else _apart(run, path)
        if apart > SAME:
            yield Finding.named("paths-differ", f"{path.name}, the output is up to {apart:.4f} off", _locate(run, path))
            return


@rule(order=501)
def check_pieces(attention: Attention, fresh: FreshRuns) -> Iterator[Finding]:
    """Whether decoding in pieces agrees with one pass."""
    run = fresh.run
    if not (attention.rows.in_pieces and run.options.has_call and run.options.causal and run.subject.is_module):
        return
    if run.options.num_context or run.options.keep is not None:
        return
    try:
        whole = Subject(run.subject.original, usual_call(run.subject.original))
        output = whole.run(run.x)
    except SubjectFailed:
        return
    path = OtherPath("in one pass instead of by `call`", whole, None, output)
    apart = _apart(run, path)
    if apart <= SAME or path.sees_the_future(run.x):  # a pass without a mask is not meant for several tokens
        return
    yield Finding.named("paths-differ", f"{path.name}, the output is up to {apart:.4f} off", _locate(run, path))


def _apart(run: Run, path: OtherPath) -> float:
    plain = run.output.tensor
    if path.output.shape != plain.shape:
        return torch.inf
    return float((path.output - plain).abs().nan_to_num(nan=torch.inf).max() / plain.abs().max().clamp(min=1e-9))


def _locate(run: Run, path: OtherPath, *, masked: bool = False) -> SourceLine | None:
    """Find the softmax of the other path where the plain run has none, or else its first line that is new.

    With `masked`, the line of any softmax will do, because its mask is what differs.
    """
    trace, _ = path.subject.trace(run.x, path.code)
    known = {operation.where for operation in run.trace.operations}
    found = [operation for operation in trace.operations if operation.name in SOFTMAXES and operation.where]
    softmaxes = [operation.where if masked else line_at(operation.outermost_statement) for operation in found]
    new = [operation.where for operation in trace.operations if operation.where and operation.where not in known]
    return next((one for one in softmaxes if one not in known), next(iter((softmaxes if masked else []) + new), None))
