"""Find the attentions of a run that x does not reach, as those of an encoder whose input `call` makes."""

from dataclasses import replace

from course_lib.tracing import FACTORS, Operation

from .attention_report import AttentionReport
from .measure.operation_names import SOFTMAXES
from .measure.run import Attempt, Run
from .report import Report

WITHOUT_X = (
    "x does not reach it, as an encoder whose input `call` makes: give that input as x, or both sides to `course scan`"
)


def add_those_without_x(report: Report, attempt: Attempt) -> Report:
    """Return a report with the attentions that x does not reach, each with the reason why it was not examined."""
    unreached = _softmaxes_without_x(attempt) if isinstance(attempt, Run) and report.examines_any else []
    if not unreached:
        return report
    reached = AttentionReport("the one that x reaches", None, report.findings, "", report.checked, report.remarks)
    lines = (f"the one at {one.where}" if one.where else "one without a line" for one in unreached)
    missing = (AttentionReport(line, missing=WITHOUT_X) for line in lines)
    return replace(report, attentions=(*(report.attentions or (reached,)), *missing))


def _softmaxes_without_x(run: Run) -> list[Operation]:
    """Return the softmaxes over products of two tensors, neither a parameter, that x does not reach."""
    from_x, trace = run.trace.descendants_of_input(), run.trace
    learned = run.parameter_storages
    found = []
    for softmax in (one for one in run.live_operations if one.name in SOFTMAXES and one.number not in from_x):
        before = run.in_order(trace.ancestors(softmax.inputs[:1]))
        scores = next((one for one in reversed(before) if one.name in FACTORS), None)
        if scores is not None and learned.isdisjoint(value.storage for value in scores.inputs):
            found.append(softmax)
    return found
