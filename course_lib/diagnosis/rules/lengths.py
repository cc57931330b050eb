"""Causal attention must give a token the same output however many tokens follow."""

from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import Dependence, FreshRuns, Run, SubjectFailed
from course_lib.diagnosis.registry import Of, rule
from course_lib.tracing import Operation, SourceLine, Trace

LOOKUPS = ("slice", "index", "index_select", "embedding", "gather", "narrow", "select")
SAME = 1e-5  # relative to the largest output


@rule(of=Of.WHOLE)
def check_followers(dependence: Dependence, fresh: FreshRuns) -> Iterator[Finding]:
    """Whether outputs stay as they are when tokens follow."""
    run, num_tokens = fresh.run, fresh.run.x.shape[1]
    if not run.options.causal or run.options.fixed_tokens or _sees_later_tokens(dependence):
        return
    for fewer in range(num_tokens - 1, 0, -1):
        try:
            output = run.subject.run(run.x[:, :fewer])
        except SubjectFailed:
            continue
        expected = run.output.tensor[:, :fewer]
        if output.shape != expected.shape:
            continue
        own = slice(0, max(1, fewer - run.subject.added))
        apart = float((output - expected)[:, own].abs().nan_to_num(nan=0.0).max())
        if apart > SAME * float(expected.abs().nan_to_num(nan=0.0).max()) and _takes_the_same_steps(run, fewer):
            evidence = f"without the last {num_tokens - fewer} of {num_tokens} tokens, the outputs of the first "
            evidence += f"{fewer} are up to {apart:.4f} off, although they see none of those"
            yield Finding.named("depends-on-length", evidence, _locate(run, fewer))
        return


def _sees_later_tokens(dependence: Dependence) -> bool:
    bits, num_tokens = dependence.tokens[dependence.run.output.number], dependence.sizes[1]
    later = torch.tensor([-(1 << (token + 1)) for token in range(num_tokens)])
    return bool((bits & later[None, :, None]).any())


def _takes_the_same_steps(run: Run, fewer: int) -> bool:
    """Return whether the code runs the same operations on fewer tokens, and not as many steps as there are tokens."""
    trace, _ = run.subject.trace(run.x[:, :fewer])
    return [one.name for one in trace.operations] == [one.name for one in run.trace.operations]


def _locate(run: Run, fewer: int) -> SourceLine | None:
    """Find the only line that looks up as many rows of a table as there are tokens, or that turns its index.

    None if several lines look up rows.
    """
    trace, _ = run.subject.trace(run.x[:, :fewer])
    shorter = {one.where: one.outputs[0].tensor.shape for one in trace.operations if _is_lookup(trace, one)}
    lookups = [one for one in run.live_operations if _is_lookup(run.trace, one)]
    lookups = [
        one for one in lookups if shorter.get(one.where, one.outputs[0].tensor.shape) != one.outputs[0].tensor.shape
    ]
    if len({one.where for one in lookups}) != 1:
        return None
    for number in sorted(run.trace.ancestors(lookups[0].inputs)):  # what makes the index
        one, longer = trace.operations[number], run.trace.operations[number]
        if longer.where and not _begins_with(longer.outputs[0].tensor, one.outputs[0].tensor):
            return longer.where
    return lookups[0].where


def _begins_with(longer: Tensor, shorter: Tensor) -> bool:
    """Return whether a tensor is the other one with more at the end of some axes."""
    if longer.dim() != shorter.dim():
        return True  # not comparable
    for axis, size in enumerate(shorter.shape):
        if size > longer.shape[axis]:
            return True
        longer = longer.narrow(axis, 0, size)
    return torch.equal(longer, shorter)


def _is_lookup(trace: Trace, operation: Operation) -> bool:
    """Return whether an operation takes rows of a table of floating-point numbers that existed before the run."""
    return (
        operation.name in LOOKUPS
        and operation.where is not None
        and operation.inputs[0].made_by is None
        and operation.inputs[0].storage != trace.x.storage
        and operation.inputs[0].tensor.is_floating_point()
    )
