"""A module must compute the same on all of its paths, and hide the future on each."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.calling import CACHE, MASK, parameters_of
from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_masking
from course_lib.diagnosis.measure import (
    SOFTMAXES,
    Attention,
    FreshRuns,
    OtherPath,
    Run,
    SoftmaxPath,
    Stages,
    Structure,
    Subject,
    SubjectFailed,
    Visibility,
    find_leak,
    influence,
    other_paths,
)
from course_lib.diagnosis.measure.calling import call_with, handing
from course_lib.diagnosis.measure.run import measure_run
from course_lib.diagnosis.measure.stages import stages_of
from course_lib.diagnosis.precedence import root_causes
from course_lib.diagnosis.registry import Of, Rule, apply, collect, rule
from course_lib.tracing import SourceLine, line_at, tensors_in
from course_lib.wording import listed

from .mask_patterns import describe_leak

SAME = 1e-5  # of the largest element: paths may compute in float32


@rule()
def check_paths(attention: Attention, fresh: FreshRuns) -> Iterator[Finding]:
    """Whether other paths agree."""
    run = fresh.run
    hides = run.options.causal and bool((attention.seen == attention.expected).all())
    hides = hides and (run.options.keep is not None or find_leak(attention.dependence) is None)
    for path in other_paths(run):
        try:
            if hides and path.sees_the_future(run.x):
                evidence = f"{path.name}, a change of the last token changes the outputs of earlier ones"
                yield Finding.named("mask-lost-on-option", evidence, _locate(run, path, masked=True))
                return
        except SubjectFailed:
            continue
        apart = 0.0 if path.training else _apart(run, path)
        if apart > SAME:
            yield _differing(run, path, apart)
            return


@rule(of=Of.WHOLE)
def check_pieces(visibility: Visibility, fresh: FreshRuns) -> Iterator[Finding | str]:
    """Whether decoding in pieces agrees with one pass."""
    run, attention = fresh.run, visibility.attention
    if not (attention.rows.in_pieces and run.options.has_call and run.options.causal and run.subject.is_module):
        return
    if run.options.num_context or run.options.keep is not None:
        return
    try:
        given = _given_first(run)
        if unknown := [f"`{name}`" for name, value in given.items() if _is_of_tokens(name, value)]:
            yield f"decoding was not compared with one pass, because `call` gives {listed(unknown)}"
            return
        parts = {name: lambda x, part=one: part for name, one in given.items() if isinstance(one, nn.Module)}
        whole = Subject(run.subject.original, call_with(run.subject.original, **parts))
        output = whole.run(run.x)
    except SubjectFailed:
        return
    path = OtherPath("in one pass instead of by `call`", whole, None, output)
    apart = _apart(run, path)
    if apart <= SAME or path.sees_the_future(run.x):  # a pass without a mask is not meant for several tokens
        return
    if _mixes_samples(run.x, path):
        yield "decoding was not compared with one pass, because the module takes the tokens on the first axis"
        return
    yield _unmasked_in_pieces(visibility, path) or _differing(run, path, apart)


def _given_first(run: Run) -> dict[str, Any]:
    """Return the optional arguments that the module gets with the first piece, by name."""
    optional = [one.name for one in parameters_of(run.subject.original) if one.default is not one.empty]
    given: list[dict[str, Any]] = []
    code = run.subject.copy(torch.float64)
    if isinstance(code, nn.Module):
        with handing(code, {}, given):
            run.subject.run(run.x, code)
    return {name: value for name, value in (given[0] if given else {}).items() if name in optional}


def _is_of_tokens(name: str, value: Any) -> bool:
    """Return whether an argument may hold numbers for each token, such as angles, and is no mask and no cache."""
    numbers = any(one.is_floating_point() or one.is_complex() for one in tensors_in(value))
    return numbers and not MASK.search(name) and not CACHE.search(name)


def _unmasked_in_pieces(visibility: Visibility, path: OtherPath) -> Finding | None:
    """Return the finding of what is seen in pieces and hidden in one pass, `path`; None if nothing is."""
    leaked, run = visibility.leaked.flatten(0, 1).any(0), visibility.attention.run
    if not leaked.any() or visibility.missing.any():
        return None
    in_one_pass = influence(path.subject, run.x) > 1e-9  # (token of the output, token of the input)
    if in_one_pass.shape != leaked.shape or (in_one_pass & leaked).any():
        return None
    query, key = leaked.nonzero()[0].tolist()
    mistake = "mask-skipped-when-cached" if leaked.triu(1).any() else "window-lost-in-decode"
    evidence = f"in pieces query {query} sees key {key}, and in one pass it does not: {describe_leak(visibility)}"
    return Finding.named(mistake, evidence, locate_masking(visibility.path))


def _mixes_samples(x: Tensor, path: OtherPath) -> bool:
    """Return whether outputs depend on other samples of x (batch, token, width), but not on other tokens."""

    def moves(axis: int) -> bool:
        changed = x.clone()
        changed.select(axis, 0).add_(1.0 + torch.arange(x.shape[-1], device=x.device, dtype=x.dtype).cos())
        apart = (path.subject.run(changed, path.code) - path.output).abs()
        return float(apart.narrow(axis, 1, x.shape[axis] - 1).amax()) > SAME

    return path.output.shape[:2] == x.shape[:2] and x.shape[0] > 1 and moves(0) and not moves(1)


def _differing(run: Run, path: OtherPath, apart: float) -> Finding:
    """Return the finding of another path, at the line of the mistake that it makes if that has a name."""
    evidence, mistake = f"{path.name}, the output is up to {apart:.4f} off", _mistake_on(run, path)
    if mistake is None:
        return Finding.named("paths-differ", evidence, _locate(run, path))
    return Finding.named("paths-differ", f"{evidence}; there, {mistake.evidence}", mistake.where)


def _mistake_on(run: Run, path: OtherPath) -> Finding | None:
    """Return what the rules find in the attention of another path alone; None if no named mistake with a line."""
    subject = path.subject if path.code is None else path.subject.with_code(path.code)
    measured = [one for one in collect(import_module(__name__.rpartition(".")[0])) if _is_of_attention(one)]
    found, _ = apply(measured, Stages(measure_run(subject, run.given, run.options)))
    return next((one for one in root_causes(found) if one.mistake and one.where), None)


def _is_of_attention(one: Rule) -> bool:
    """Return whether a rule judges the attention of a run, and runs the code no other way."""
    stages = stages_of(one.check)
    return not {Structure, SoftmaxPath, Attention, Visibility}.isdisjoint(stages) and FreshRuns not in stages


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
