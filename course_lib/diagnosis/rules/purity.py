"""Find random numbers in evaluation, dropout before softmax in training, and changes of the input in place."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.diagnosis.finding import Finding, Kind
from course_lib.diagnosis.locate import locate_attribute_read
from course_lib.diagnosis.measure import FreshRuns, Run, SoftmaxPath, Stages, Structure, Subject, SubjectFailed
from course_lib.diagnosis.registry import Of, rule
from course_lib.tracing import LAYOUT, FunctionWatch, Operation, draws, drops_out

COPIES = ("clone", "_to_copy")
DROPOUTS = (F.dropout, torch.dropout, F.alpha_dropout, F.dropout1d, F.dropout2d)


@rule(of=Of.BOTH)
def check_determinism(run: Run) -> Iterator[Finding]:
    """Random numbers in evaluation."""
    drawn = [operation for operation in draws(run.trace) if operation.number in run.live]
    try:
        apart = difference_between_calls(run.subject, run.x) if drawn else 0.0
    except SubjectFailed:
        return
    if apart <= 1e-9:
        return
    evidence = f"two runs in evaluation are up to {apart:.4f} apart"
    if drops_out(run.trace):
        where = locate_attribute_read(drawn[0], run.subject, _holds_modules) or drawn[0].where
        yield Finding.named("dropout-at-eval", evidence, where)
    else:
        yield Finding.unnamed(Kind.RANDOM, evidence, drawn[0].where)


def _storages_of_x(run: Run) -> set[int]:
    """Return the memory of x, and of its parts that the code is given in place of x, as beside a context."""
    x, found = run.trace.x.storage, {run.trace.x.storage}
    for operation in run.trace.operations if run.options.has_call else ():
        if operation.frames or operation.name not in (*LAYOUT, *COPIES):  # what comes next is the code's own
            break
        found |= {value.storage for value in operation.outputs if operation.inputs[0].storage == x}
    return found


def difference_between_calls(subject: Subject, x: Tensor) -> float:
    """Measure how much runs in evaluation with different random seeds differ; zero if nothing is random."""
    first = subject.run(x, seed=1)
    more = (subject.run(x, seed=seed) for seed in range(2, 10))  # so that dropout would surely drop a weight
    return max(float((one - first).abs().max()) for one in more)


def _holds_modules(value: Any) -> bool:
    """Return whether an attribute is a plain list of modules, which eval() does not reach."""
    return isinstance(value, (list, tuple)) and any(isinstance(one, nn.Module) for one in value)


@rule(of=Of.BOTH)
def check_input(run: Run) -> Iterator[Finding]:
    """Whether x is changed in place."""
    given = _storages_of_x(run)
    for operation in () if run.subject.makes_x else run.trace.operations:
        if not operation.in_place or not operation.outputs or operation.outputs[0].storage not in given:
            continue
        before, after = operation.inputs[0].tensor, operation.outputs[0].tensor
        if not torch.equal(before, after):
            apart = float((before.double() - after.double()).abs().nan_to_num().max())
            evidence = f"`{operation.name}` writes into x, by up to {apart:.4f}"
            yield Finding.named("input-modified", evidence, operation.where)
            return


@rule(of=Of.BOTH)
def check_dropout(structure: Structure, fresh: FreshRuns) -> Iterator[Finding]:
    """Whether dropout comes after softmax."""
    run = _run_in_training(fresh.run) if fresh.run.subject.is_module else None
    if run is None or not any(map(_is_dropout, run.trace.operations)):
        return
    path = Stages(run).reach(SoftmaxPath)
    if path is None or not path.softmaxes:
        return
    for operation in path.structure.ancestors_of([path.softmaxes[0].inputs[0]]):
        if _is_dropout(operation) and path.scores.reaches(operation.outputs[0]):
            evidence = "in training, dropout is given scores; softmax comes after it"
            yield Finding.named("dropout-before-softmax", evidence, operation.where)
            return


def _run_in_training(run: Run) -> Run | None:
    """Return a run in training with a marker in place of dropout; None if it has no dropout, or fails."""
    with _MarkedDropout() as marked:
        with suppress(SubjectFailed):  # a trace takes five times as long
            run.subject.run(run.x, run.subject.copy(torch.float64, training=True))
        if not marked.seen:
            return None
        trace, result = run.subject.trace(run.x, run.subject.copy(torch.float64, training=True))
    if isinstance(result, Exception) or trace.output is None:
        return None
    return Run(run.subject, run.options, run.given, run.x, trace, trace.output)


class _MarkedDropout(FunctionWatch):
    """Replaces every dropout with an operation that changes nothing and that no author writes.

    Attributes:
        seen: whether there was a dropout.
    """

    seen = False

    def call(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        if func not in DROPOUTS:
            return func(*args, **kwargs)
        self.seen = True
        given = args[0] if args else kwargs["input"]
        return torch.nan_to_num(given, nan=math.nan, posinf=math.inf, neginf=-math.inf)


def _is_dropout(operation: Operation) -> bool:
    return operation.name == "nan_to_num" and operation.args[2:] == (math.inf, -math.inf)
