"""Run the code on a different prompt and then on x again, to find state that it keeps."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from course_lib.tracing import SourceLine, Trace

from .dependence import Dependence
from .run import Run
from .subject import SubjectFailed

LEFT = 1e-4  # two runs on equal inputs differ by less, whatever the kernel and its precision


@dataclass(frozen=True, eq=False)
class SecondPrompt:
    """How a run on x differs after a run on a different prompt.

    Attributes:
        run: the first run on x.
        difference: how the output of x differs after a different prompt, in words; "" if it does not.
        failed_at: the line that raised an error, if any is known.
        outlasts: whether a run leaves state behind that even a fresh copy of the code starts with.
        fails: why even a first run fails unless its operations are traced, as one with a view may; "" if it does not.
    """

    run: Run
    difference: str
    failed_at: SourceLine | None
    outlasts: bool
    fails: str = ""

    def trace(self) -> Trace:
        """Return the trace of a run on x after a different prompt, up to its end or error."""
        subject = self.run.subject
        code = subject.copy(torch.float64)
        subject.trace(_other_prompt(self.run.x), code)
        return subject.trace(self.run.x, code)[0]


@dataclass(frozen=True, eq=False)
class FreshRuns:
    """Each run of a fresh copy equals the first run, so that runs with a change can be compared with it."""

    run: Run


def run_second_prompt(dependence: Dependence) -> SecondPrompt:
    """Run a fresh copy on x, then a second copy on a different prompt and on x."""
    run, subject = dependence.run, dependence.run.subject
    code = subject.copy(torch.float64)
    first = run.output.tensor
    # A part that fails has got rows of another number than the whole around it goes on with, and a class that says
    # how it is copied may leave a kept result out.
    states = (type(one).__getstate__ is nn.Module.__getstate__ for one in subject.modules.values())
    counts = not subject.is_part and all(states)
    try:
        fresh = subject.run(run.x)
    except SubjectFailed as failure:
        return SecondPrompt(run, "", failure.line, True, str(failure) if counts else "")
    try:
        subject.run(_other_prompt(run.x), code)
        second = subject.run(run.x, code)
    except SubjectFailed as failure:
        difference = f"a second prompt fails: {failure}" if counts else ""
        return SecondPrompt(run, difference, failure.line, not _runs_afresh(run))
    outlasts = _apart(first, fresh) > LEFT
    if fresh.shape != second.shape:
        difference = f"after another prompt the output has the shape {tuple(second.shape)}"
        return SecondPrompt(run, difference, None, outlasts)
    apart = max(_apart(fresh, second), _apart(first, fresh) if outlasts else 0.0)
    difference = f"after another prompt the same x gives an output that is up to {apart:.4f} off"
    return SecondPrompt(run, difference if apart > 1e-9 else "", None, outlasts)


def check_fresh_runs(second: SecondPrompt) -> FreshRuns | None:
    """Return the stage in which further runs may be compared with the first; None if a run leaves state behind."""
    return None if second.outlasts else FreshRuns(second.run)


def _other_prompt(x: Tensor) -> Tensor:
    return x.flip(1) * 0.5 + 0.25


def _runs_afresh(run: Run) -> bool:
    try:
        return _apart(run.output.tensor, run.subject.run(run.x)) <= LEFT
    except SubjectFailed:
        return False


def _apart(one: Tensor, other: Tensor) -> float:
    """Return how much two outputs differ where the first is finite."""
    if one.shape != other.shape:
        return torch.inf
    return float((one - other).abs().nan_to_num(nan=torch.inf).where(one.isfinite(), 0.0).max())
