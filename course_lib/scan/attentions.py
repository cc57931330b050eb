"""The path that looks inside: the doctor on every attention, with what the model really gives it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.calling import first_tensor
from course_lib.diagnosis import (
    NOT_JUDGED,
    WITHOUT_X,
    AttentionReport,
    Finding,
    Kind,
    Report,
    Step,
    diagnose,
    said_once,
)
from course_lib.wording import counted, listed

from .compare import Submodule
from .model import CannotRun, Model, first_output
from .path import Outcome, path

NUM_TOKENS = 4  # enough for the doctor, and within the windows of tiny models
MOST_TRIED = 8  # tokens; the doctor tries no longer inputs


@path("attention")
def attention(model: Model) -> Iterator[Outcome]:
    """Let the doctor examine every attention inside the model, in its place."""
    report = _report_on(model, model.x[:, :NUM_TOKENS], causal=model.causal, call=_call_with_x(model))
    if not all(finding.examined for finding in report.findings):
        raise CannotRun(report.findings[0].evidence)
    missing = [layer for layer in report.attentions if layer.missing]
    if missing:
        unseen = _by_reason(missing)
        count = f"{len(missing)} of {counted(len(report.attentions), 'attention')}"
        yield Outcome("attention", "not examined", f"{count}: {unseen}")
    of_states = _of_states(model, report)
    if of_states:
        kinds = listed(sorted(set(model.recurrent.values())))
        reason = "a layer of this name carries a state instead of comparing tokens"
        yield Outcome("attention", "not examined", f"{kinds}, because {reason}")
    yield from (_outcome(finding, model) for finding in report.findings if finding not in of_states)
    of_encoder: list[AttentionReport] = []
    if model.context is not None:
        try:
            of_encoder = _of_encoder(model, report)
        except CannotRun as error:
            yield Outcome("attention", "not examined", f"those of its encoder: {error}")
    yield from (_outcome(finding, model) for finding in said_once(of_encoder))
    if not model.takes_chunks:
        yield from (Outcome("attention", "not examined", f"{name}: {why}") for name, why in report.not_run)
    if (report.findings or missing) and report.not_judged:
        yield Outcome("attention", "agrees", NOT_JUDGED, not_judged=True)
    if not report.findings and not missing and all(layer.ok for layer in of_encoder):
        more = f"; of its encoder {counted(len(of_encoder), 'attention')} examined" if of_encoder else ""
        verdict = replace(report, not_run=()).verdict
        yield Outcome("attention", "agrees", f"{verdict.removesuffix('.')}{more}", not_judged=bool(report.not_judged))


def _report_on(model: Model, x: Tensor, *, causal: bool, call: Callable[..., Any] | None) -> Report:
    try:
        report = diagnose(model.module, x, causal=causal, call=call, **model.meant)
    except TypeError as error:  # ids for a model without a table of embeddings
        raise CannotRun(str(error)) from error
    # Those of an encoder are examined with the context as x.
    reached = (layer for layer in report.attentions if model.context is None or layer.missing != WITHOUT_X)
    return replace(report, attentions=tuple(reached))


def _call_with_x(model: Model) -> Callable[..., Any] | None:
    """Return how to run the model so that its output comes first; None if it does so by itself."""
    if model.call is not None and model.context is None:
        return model.call
    if model.context is None and not model.answers:
        result = model.result(model.x)
        if model.is_pretrained or isinstance(first_tensor(result), Tensor):
            return None
    return lambda module, x: first_output(model.run(module, x), x)


def _of_encoder(model: Model, report: Report) -> list[AttentionReport]:
    """Examine the attentions that depend on the context alone, which are those of an encoder.

    Raises:
        CannotRun: the context is no row of tokens.
    """
    context = model.context
    if context is None or (model.is_pretrained and context.is_floating_point()):
        raise CannotRun("it takes sound or spectra instead of tokens")
    x = torch.cat([model.x, model.x], dim=1)[:, : max(model.x.shape[1], MOST_TRIED + 1)]  # no context is as long

    def run(module: nn.Module, encoder_input: Tensor) -> Tensor:
        tokens = x[torch.arange(len(encoder_input)) % len(x)].to(encoder_input.device)
        return first_output(model.on(tokens, encoder_input).run(module, tokens), tokens)

    encoder_report = _report_on(model, context[:, :NUM_TOKENS], causal=False, call=run)
    known = {layer.name for layer in report.attentions}
    examined = [layer for layer in encoder_report.attentions if not layer.missing and layer.name not in known]
    located = [layer for layer in examined if layer.where]
    if located:  # one without a module of its own may be the decoder's, of which causal=False is not true
        examined = [layer for layer in examined if layer in located or any(each.mistake for each in layer.findings)]
    has_encoder = any(name.rpartition(".")[2].startswith("enc") for name, _ in model.module.named_modules())
    if has_encoder and not examined:
        reasons = [layer.missing for layer in encoder_report.attentions if layer.missing]
        reasons += [finding.evidence for finding in encoder_report.findings if not finding.examined]
        raise CannotRun(reasons[0] if reasons else "none of them is found")
    return examined


def _outcome(finding: Finding, model: Model) -> Outcome:
    """Turn a finding into an outcome; what a published model may intend is a remark."""
    # Published models mean a scale of their own; what has no name is mostly a window.
    may_be_meant = model.is_pretrained and (not finding.mistake or finding.origin.step is Step.SCALE)
    may_be_meant = may_be_meant or (finding.kind is Kind.MORE_HIDDEN and model.meant.get("window") is None)
    detail = finding.evidence
    if may_be_meant and finding.mistake:
        at = f" at {finding.where}" if finding.where else ""
        detail += f"; if that is not meant, it is [{finding.mistake}]{at}"
    submodule = Submodule("", "", finding.where) if finding.where else None  # type: ignore[arg-type]
    status = "remark" if may_be_meant else "wrong"
    drawn_nowhere = replace(finding, draw=None)  # what draws holds the run, which no other process can be given
    return Outcome("attention", status, detail, finding.mistake or "", submodule, finding=drawn_nowhere)


def _of_states(model: Model, report: Report) -> list[Finding]:
    """Return the findings of a model with recurrent layers that lie outside its attentions."""
    if not model.recurrent:
        return []
    states = tuple(f"{name}." for name in model.recurrent)
    attending = [layer for layer in report.attentions if not f"{layer.name}.".startswith(states)]
    known = {(finding.mistake, finding.where) for layer in attending for finding in layer.findings}
    return [finding for finding in report.findings if (finding.mistake, finding.where) not in known]


def _by_reason(missing: list[AttentionReport]) -> str:
    names: dict[str, list[str]] = {}
    for layer in missing:
        names.setdefault(layer.missing, []).append(layer.name)
    return "; ".join(
        f"{some[0]}{f' and {len(some) - 1} more' if len(some) > 1 else ''}, because {reason}"
        for reason, some in names.items()
    )
