"""Samples seem to influence each other in code whose first axis is the tokens': say how to call it."""

from dataclasses import replace

import torch

from .measure import SubjectFailed, influence
from .measure.run import Attempt, Run
from .report import Report

MIXED = "batch-mixed"
APART = "; with tokens on the first axis, samples do not influence each other: "
CALL = (
    "if it takes (token, batch, width), give `call=lambda a, x: a(x.transpose(0, 1)).transpose(0, 1)`",
    "`call` should then exchange the first two axes of x, and those of the output, once more, or not at all",
)  # without and with a `call` of the caller


def add_way_out(report: Report, attempt: Attempt) -> Report:
    """Return a report that says of samples which influence each other how code with tokens first is called."""
    if MIXED not in report.mistakes or not isinstance(attempt, Run) or not _takes_tokens_first(attempt):
        return report
    said = f"{APART}{CALL[attempt.options.gives_call]}"
    findings = tuple(
        replace(one, evidence=f"{one.evidence}{said}") if one.mistake == MIXED else one for one in report.findings
    )
    return replace(report, findings=findings)


def _takes_tokens_first(run: Run) -> bool:
    """Return whether samples on the second axis do not influence each other, but the tokens on the first axis do."""
    options = run.options
    if (options.has_call and not options.gives_call) or options.num_context:  # the axes are not those of the code
        return False
    swapped = run.x.transpose(0, 1).contiguous()
    try:
        of_samples, of_tokens = influence(run.subject, swapped) > 0, influence(run.subject, swapped, axis=0) > 0
    except SubjectFailed:
        return False
    return of_samples.equal(torch.eye(len(run.x), dtype=torch.bool)) and bool(of_tokens.fill_diagonal_(False).any())
