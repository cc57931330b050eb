"""The path that looks inside: the doctor on every attention, with what the model really gives it."""

from collections.abc import Iterator

from course_lib.diagnosis import Finding, Report, diagnose
from course_lib.wording import counted, listed

from .compare import Place
from .model import CannotRun, Model
from .outcome import Outcome
from .path import path

# What a scan was not told of may be meant, such as scores that are not scaled; without a name it is mostly a window.
INTENTIONS = {"missing-scale", "wrong-scale"}
NUM_TOKENS = 4  # enough for the doctor, and within the windows of tiny models


@path("attention")
def attention(model: Model) -> Iterator[Outcome]:
    """Let the doctor examine every attention inside the model, in its place."""
    try:
        report = diagnose(model.module, model.x[:, :NUM_TOKENS], causal=model.causal, call=model.call)
    except TypeError as error:  # ids for a model without a table of embeddings
        raise CannotRun(str(error)) from error
    if not all(finding.examined for finding in report.findings):
        raise CannotRun(report.findings[0].evidence)
    if report.not_examined:
        unseen = _by_reason(report)
        count = f"{len(report.not_examined)} of {counted(len(report.attentions), 'attention')}"
        yield Outcome("attention", "not examined", f"{count}: {unseen}")
    of_states = _of_states(model, report)
    if of_states:
        kinds = listed(sorted(set(model.recurrent.values())))
        reason = "a layer of this name carries a state instead of comparing tokens"
        yield Outcome("attention", "not examined", f"{kinds}, because {reason}")
    for finding in (one for one in report.findings if one not in of_states):
        place = Place("", "", finding.where)  # type: ignore[arg-type]
        status = "wrong" if finding.mistake and finding.mistake not in INTENTIONS else "remark"
        said = finding.evidence
        if finding.mistake in INTENTIONS:
            at = f" at {finding.where}" if finding.where else ""
            said += f"; if that is not meant, it is [{finding.mistake}]{at}"
        yield Outcome("attention", status, said, finding.mistake or "", place if finding.where else None)
    if report.ok:
        yield Outcome("attention", "agrees", report.verdict.removesuffix("."))


def _of_states(model: Model, report: Report) -> list[Finding]:
    """Return the findings of a model with recurrent layers that are in none of its attentions."""
    if not model.recurrent:
        return []
    states = tuple(f"{name}." for name in model.recurrent)
    attending = [one for one in report.attentions if not f"{one.name}.".startswith(states)]
    known = {(finding.mistake, finding.where) for one in attending for finding in one.findings}
    return [finding for finding in report.findings if (finding.mistake, finding.where) not in known]


def _by_reason(report: Report) -> str:
    """Return the names of the attentions that were not examined, with each reason once."""
    names: dict[str, list[str]] = {}
    for one in report.not_examined:
        names.setdefault(one.missing, []).append(one.name)
    return "; ".join(
        f"{some[0]}{f' and {len(some) - 1} more' if len(some) > 1 else ''}, because {reason}"
        for reason, some in names.items()
    )
