"""Give code that takes a mask a mask in the convention that it uses."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.calling import first_tensor

from .attention import Attention
from .calling import Call, mask_argument
from .offers import SENSES, Sense, masking_subjects
from .options import Options
from .run import FailedRun, Run, UntraceableRun, measure_run
from .stages import Stages
from .structure import Structure
from .subject import Subject


def measure(subject: Subject, x: Tensor, options: Options) -> Stages:
    """Run code on x, (batch, token, d_in), with the causal mask that it has an argument for if it needs one.

    Returns:
        The stages in which the right tokens are visible, or else those of the code as it is called without a mask;
        always those if it has a causal mask of its own, whose mistakes another mask would hide.
    """
    stages = followed(_measure_with_keep(subject, x, options))
    attention = None if options.has_call or not options.causal else stages.reach(Attention)
    if attention is None or not (attention.seen & ~attention.expected).any() or _hides_by_itself(attention.seen):
        return stages
    for name, offered in masking_subjects(subject, stages.attempt.x):
        masked = Stages(measure_run(offered, x, replace(options, offered=name)))
        if _is_right(masked):
            return masked
    return stages


def followed(stages: Stages) -> Stages:
    """Return the stages, or those of a run that can't be traced if numbers pass by the trace, as through NumPy."""
    run = stages.attempt
    if not isinstance(run, Run):
        return stages
    structure = stages.reach(Structure)
    uses_scores = structure is not None and not structure.score_descendants.isdisjoint(run.live)
    if uses_scores or run.is_followed:
        return stages
    error = RuntimeError("some of its numbers leave PyTorch, for NumPy or for Python")
    return Stages(UntraceableRun(run.subject, run.options, run.given, run.x, run.trace, error))


def _measure_with_keep(subject: Subject, x: Tensor, options: Options) -> Stages:
    """Run code on x, (batch, token, d_in), with a mask if it does not run without or `keep` is given.

    Returns:
        The stages in which the right tokens are visible, or else the first with a mask that reach attention, or else
        those of the run without a mask.
    """
    stages = Stages(measure_run(subject, x, options))
    attempt, argument = stages.attempt, None if options.has_call else mask_argument(subject.original)
    lacks = isinstance(attempt, FailedRun) and isinstance(attempt.error, TypeError) and "argument" in str(attempt.error)
    if argument is None or not (lacks or options.keep is not None) or _is_right(stages):
        return stages
    first = None
    for sense in SENSES[:1] if argument == "keep" else SENSES:
        tried_subject = Subject(subject.original, _call(argument, sense, options))
        tried = Stages(measure_run(tried_subject, x, options))
        if _is_right(tried):
            return tried
        if first is None and tried.reach(Attention) is not None:
            first = tried
    return first or stages


def _hides_by_itself(seen: Tensor) -> bool:
    """Return whether code hides one of two tokens from the other alone: its own causal mask, even if it is wrong."""
    one_way = ~seen & seen.mT & seen.any(-2, keepdim=True)
    return bool(one_way.any())


def _is_right(stages: Stages) -> bool:
    attention = stages.reach(Attention)
    return attention is not None and torch.equal(attention.seen, attention.expected)


def _call(argument: str, sense: Sense, options: Options) -> Call:
    def call(code: Any, x: Tensor) -> Any:
        seen = options.expected_keep(len(x), 1, x.shape[1]).to(x.device)
        mask = sense(seen[0, 0] if options.keep is None else seen, x)
        return first_tensor(code(x, **{argument: mask}))

    return call
