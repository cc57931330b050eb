"""The path that looks inside: the doctor on every attention, with what the model really gives it."""

from collections.abc import Iterator

from course_lib.diagnosis import diagnose

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
    report = diagnose(model.module, model.x[:, :NUM_TOKENS], causal=model.causal, call=model.call)
    if report.exit_status == 2:
        raise CannotRun(report.findings[0].evidence if report.findings else report.verdict)
    for finding in report.findings:
        place = Place("", "", finding.where)  # type: ignore[arg-type]
        status = "wrong" if finding.mistake and finding.mistake not in INTENTIONS else "remark"
        yield Outcome("attention", status, finding.evidence, finding.mistake or "", place if finding.where else None)
    if not report.findings:
        yield Outcome("attention", "agrees", report.verdict.removesuffix("."))
