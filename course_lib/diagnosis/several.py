"""Examine code with several attentions: each in its place, and the whole from outside."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from course_lib.tracing import SourceLine, source_of

from .attention_report import AttentionReport
from .confirm import confirm
from .finding import Finding, Kind
from .known_patterns import add_pattern_evidence
from .measure.apart import find_by_rows
from .measure.apart_subject import ApartSubject
from .measure.attention import Attention
from .measure.dataflow import Dataflow
from .measure.dependence import Dependence
from .measure.grid import groups_of, lays_out_grid, seen_by_each
from .measure.location import find_locations
from .measure.mask_input import followed
from .measure.norms_of_tokens import norm_of_tokens
from .measure.options import Options
from .measure.place import Place
from .measure.placed import PlacedSubject
from .measure.reach import Leak, find_displaced_row, find_leak
from .measure.run import Run, changed, measure_run, noise_of
from .measure.score_products import ScoreProduct, find_score_products
from .measure.segment import find_segments
from .measure.segment_subject import SegmentSubject
from .measure.stages import Stages
from .measure.subject import Subject, SubjectFailed
from .precedence import root_causes
from .registry import Of, Rule, apply
from .shared import Shared

UNUSED_MASK, OTHER_SAMPLE = "mask-discarded", "batch-mixed"
NO_ROWS = "not probed from outside, because the output has no row for each token"
ONE_TOKEN = "it has one token, whose weight is 1 whatever the scores are"
PROBED = "from outside: no output moves with a token that it should not see, nor with another sample"


def examine_each(run: Run, rules: list[Rule]) -> list[AttentionReport]:
    """Find the attentions of a run and examine each in its place, in the order in which they run."""
    code = run.subject.code
    paths = {module: name for name, module in code.named_modules()} if isinstance(code, nn.Module) else {}
    found = find_locations(run.trace, paths, (run.x.shape[0], run.x.shape[1]), run.options.num_context)
    return [report for place in found for report in _examined_somehow(run, place, rules)]


def _examined_somehow(run: Run, place: Place, rules: list[Rule]) -> list[AttentionReport]:
    """Examine an attention from the tokens that it is made from, or else from the rows of its queries, keys and values.

    Those may be several attentions, each with its report.
    """
    report = _examined(run, place, rules)
    if not report.missing:
        return [report]
    products = find_score_products(run.trace)
    apart = find_by_rows(Dataflow(run.trace, products), _among(products, place.products), place.name)
    reports = [_examined(run, replace(one, of_memory=place.of_memory), rules) for one in apart]
    return reports if reports and not any(one.missing for one in reports) else [report]


def _among(products: list[ScoreProduct], chosen: Sequence[ScoreProduct]) -> list[ScoreProduct]:
    numbers = {product.operation.number for product in chosen}
    return [product for product in products if product.operation.number in numbers]


def examine_parts(run: Run, rules: list[Rule]) -> list[AttentionReport]:
    """Examine the attentions of a run from the tokens that their queries and keys are made from, whatever is before."""
    products = find_score_products(run.trace)
    flow, sizes = Dataflow(run.trace, products), (run.x.shape[0], run.x.shape[1])
    examined: list[AttentionReport] = []
    for fewer_keys in (False, True):
        found = find_segments(flow, products, sizes, fewer_keys=fewer_keys)
        examined = [_examined(run, place, rules) for place, _, _ in found]
        if not any(one.missing for one in examined):
            return examined
    return [_examined(run, place, rules) for place in find_by_rows(flow, products)] or examined


def examine_rows(run: Run, rules: list[Rule]) -> list[AttentionReport]:
    """Examine the attentions of a run from the rows of their queries, keys and values, as those of a grid's axes."""
    products = find_score_products(run.trace)
    return [_examined(run, place, rules) for place in find_by_rows(Dataflow(run.trace, products), products)]


def examine_other_rows(run: Run, rules: list[Rule]) -> list[AttentionReport]:
    """Examine attentions whose output has a row for each query of the last one, or one row for a sample; else []."""
    products, shape = find_score_products(run.trace), run.output.tensor.shape
    flow = Dataflow(run.trace, products)
    places = find_by_rows(flow, products)
    if not places and run.is_pooled:  # as of a map, whose rows and columns are no rows of tokens
        places = [place for place, _, _ in find_segments(flow, products, (run.x.shape[0], run.x.shape[1]))]
    last = places[-1].given if places else None
    rows = None if last is None else last.shape[1] - places[-1].num_context
    if rows is None or not (run.is_pooled or (len(shape) == 3 and rows == shape[1])):
        return []
    return [_examined(run, place, rules) for place in places]


def _examined(run: Run, place: Place, rules: list[Rule]) -> AttentionReport:
    """Examine one attention; where nothing says whether it should be causal, either is right."""
    source = None if place.module is None else source_of(type(place.module))
    where = None if source is None else SourceLine(source.file, source.tree.lineno)
    if place.given is None:
        return AttentionReport(place.name, where, missing=place.missing, of_memory=place.of_memory)
    beside_context = run.options.num_context > 0 and not place.num_context  # as in a decoder, which is mostly causal
    causals = (False, True) if place.of_memory and run.options.causal else (run.options.causal,)
    causals = (True, False) if beside_context else causals
    first: AttentionReport | None = None
    keep = run.options.keep if place.num_context == run.options.num_context else None  # of the tokens of x, or context
    options = replace(run.options, has_call=True, expect=None, keep=keep, num_context=place.num_context)
    num_tokens = place.given.shape[1] - place.num_context
    if place.apart is not None:  # its rows are the run's own
        same = (len(place.given), num_tokens) == run.x.shape[:2]
        keep = run.options.keep if _hides_keys_alone(run, place) else keep if same else None
        options = replace(options, lengths=(num_tokens,), keep=keep)
    ways = [replace(options, causal=causal) for causal in ((False,) if place.num_context else causals)]
    if place.apart is not None and (own := _of_own_sample(run, place)) is not None:
        ways = [replace(options, causal=run.options.causal and not place.num_context, keep=own), *ways]
    alone = run.options.causal and not run.options.num_context
    if place.apart is not None and alone and place.num_context == num_tokens:  # as behind convolutions
        ways.append(replace(ways[-1], keep=torch.ones(num_tokens, num_tokens).tril() > 0, in_groups=False))
    for way in ways:
        report = _examined_as(run, place, place.given, way, rules)
        first = first or replace(report, where=where, of_memory=place.of_memory)
        if report.ok or any(finding.mistake == UNUSED_MASK for finding in report.findings):  # wrong, causal or not
            return replace(report, where=where, of_memory=place.of_memory)
        if not _is_named(first) and _is_named(report):  # the way that explains more is the one that was meant
            first = replace(report, where=where, of_memory=place.of_memory)
    groups = _groups(run, place)
    if groups is not None:
        way = replace(options, causal=False, keep=groups, in_groups=True)
        report = _examined_as(run, place, place.given, way, rules)
        if report.ok:
            return replace(report, where=where)
    return first or AttentionReport(place.name)


def _groups(run: Run, place: Place) -> Tensor | None:
    """Return which rows of a place see each other, where they see each other in groups, as the frames of a video do."""
    options, given = run.options, place.given
    free = not options.causal and options.keep is None and options.window is None and bool(options.lengths)
    if not free or given is None or place.apart is not None or place.num_context or not given.isfinite().all():
        return None
    subject = _subject_of(run, place)
    measure_run(subject, given, options)  # which wakes weights that are all zeros
    seen = seen_by_each(subject, given)
    of_row = not lays_out_grid(subject.trace(given.double())[0], given.shape[1])
    return None if seen is None else groups_of(seen, of_row=of_row)


def _is_named(report: AttentionReport) -> bool:
    return bool(report.findings) and all(finding.mistake for finding in report.findings)


def _hides_keys_alone(run: Run, place: Place) -> bool:
    """Return whether the keys of a place are the tokens of x, and `keep` hides the same of them from every query."""
    keep, sizes = run.options.keep, (len(place.given), place.num_context) if place.given is not None else ()
    return keep is not None and sizes == run.x.shape[:2] and (keep.dim() == 2 or keep.shape[-2] == 1)


def _of_own_sample(run: Run, place: Place) -> Tensor | None:
    """Return which rows are of one sample, bool (query, key), where the tokens of all samples stand in one row."""
    samples, context = run.x.shape[0], run.options.num_context
    queries = run.x.shape[1] - context
    keys = context or queries
    rows = 0 if place.given is None else place.given.shape[1] - place.num_context
    if samples < 2 or (rows, place.num_context or rows) != (samples * queries, samples * keys):
        return None
    if not _keeps_samples_apart(run):
        return None
    of = torch.arange(samples)
    return of.repeat_interleave(queries)[:, None] == of.repeat_interleave(keys)


def _examined_as(run: Run, place: Place, given: Tensor, options: Options, rules: list[Rule]) -> AttentionReport:
    if (place.num_context or given.shape[1]) == 1 != run.options.num_context:
        return AttentionReport(place.name, missing=ONE_TOKEN)
    if not given.isfinite().all():  # an earlier mistake
        given = noise_of(given.shape, seed=17)
    subject = _subject_of(run, place)
    stages = followed(Stages(measure_run(subject, given, options)))
    findings, remarks = apply([one for one in rules if Of.EACH in one.of], stages)
    causes = root_causes([add_pattern_evidence(finding, stages) for finding in findings])
    if type(place.module).__module__.startswith("torch."):  # whose lines are not the author's
        causes = tuple(replace(cause, where=cause.where or place.called) for cause in causes)
    unseen = stages.reach(Attention) is None and not any(cause.mistake for cause in causes)
    if unseen or (causes and not any(cause.examined for cause in causes)):
        reason = causes[0].evidence if causes else "its scores can't be followed to the values"
        return AttentionReport(place.name, missing=reason)
    if any(cause.mistake == OTHER_SAMPLE for cause in causes) and _keeps_samples_apart(run):
        return AttentionReport(place.name, missing="its rows can't be told from those of other samples")
    checked = () if causes else tuple(confirm(stages))
    return AttentionReport(place.name, None, causes, "", checked, tuple(remarks))


def _keeps_samples_apart(run: Run) -> bool:
    """Return whether the outputs of the first sample, and of the last, stay when all the other samples change."""
    before, noise = run.output.tensor, noise_of(run.x.shape, seed=19).to(run.x.dtype)
    for sample in (0, -1):
        x = run.x + noise
        x[sample] = run.x[sample]
        try:
            now = run.subject.run(x)
        except SubjectFailed:
            return False
        if now.shape != before.shape or len(now) != len(x) or changed(now[sample], before[sample]).any():
            return False
    return True


def _moves_with_another(run: Run) -> bool:
    """Return whether the output of the first sample moves when the last one changes."""
    before, x = run.output.tensor, run.x.clone()
    if len(x) < 2 or before.dim() < 2 or len(before) != len(x) or run.options.has_call:
        return False
    x[-1] += noise_of(x[-1].shape, seed=19).to(x.dtype)
    try:
        same, now = run.subject.run(run.x), run.subject.run(x)
    except SubjectFailed:
        return False
    fits = now.shape == before.shape == same.shape and not changed(same, before).any()
    return fits and bool(changed(now[0], before[0]).any())


def _subject_of(run: Run, place: Place) -> Subject:
    if place.apart is not None:
        return ApartSubject(run.subject, place, run.x, run.trace)
    if place.segment is None:
        return PlacedSubject(run.subject, place, run.x, run.options.num_context)
    return SegmentSubject(run.subject, place, run.x, run.trace)


def examine_whole(run: Run, attentions: list[AttentionReport], rules: list[Rule], shared: Shared) -> AttentionReport:
    """Probe the code from outside, and look for what is wrong wherever it is.

    Effects of what was found are left out, and so is what is `shared` with a reference.
    """
    stages = Stages(run)
    found, remarks = apply([one for one in rules if Of.WHOLE in one.of], stages)
    findings = shared.left(found)
    inner = [finding for attention in attentions for finding in attention.findings]
    causes = root_causes([*inner, *findings])
    said = {finding.about for finding in inner if finding.mistake is None}
    own = [one for one in findings if any(one is cause for cause in causes) and one.about not in said]
    dependence = stages.reach(Dependence)
    if dependence is None:
        if _moves_with_another(run):
            own.append(Finding.named(OTHER_SAMPLE, "the output of the first sample changes when the last one changes"))
        return AttentionReport("", findings=tuple(own), remarks=(*remarks, NO_ROWS))
    if any([*(one.in_plain_run for one in inner), *(one.of_memory for one in attentions)]):
        # What is hidden is not known.
        return AttentionReport("", findings=tuple(own), remarks=tuple(remarks))
    unknown = any(attention.missing for attention in attentions)
    unseen = unknown and run.options.has_call  # `call` may bring a second sequence
    leak = None if unseen else find_leak(dependence, masked=not unknown)
    displaced = None if leak is not None or unknown else find_displaced_row(dependence)
    if leak is not None:
        own.append(_leaking(leak, run, unknown))
    elif displaced is not None:
        own.append(_displaced(*displaced))
    return AttentionReport("", findings=tuple(own), checked=() if own or unknown else (PROBED,), remarks=tuple(remarks))


def _displaced(row: int, token: int) -> Finding:
    """Return the finding of an output that stands in another token's row."""
    evidence = f"row {row} of the output moves with token {token} and not with token {row}, of which its query is made"
    return Finding.unnamed("outputs stand in the rows of other tokens", evidence, None)


def _leaking(leak: Leak, run: Run, unknown: bool) -> Finding:
    """Return the finding of a token that is seen from outside; `unknown` if an attention was not examined."""
    evidence = leak.evidence
    statistic = None if leak.operation is None else norm_of_tokens(run, leak.operation)
    if statistic is not None:
        evidence = f"`{statistic.name}` of what queries and keys are made from runs over the tokens: {evidence}"
        return Finding.named("norm-wrong-axis", evidence, statistic.where)
    if unknown and run.options.causal and run.options.keep is None:
        return Finding.named("no-causal-mask", evidence, leak.where)
    return Finding.unnamed(Kind.LEAK_BEHIND if leak.is_behind else Kind.LEAK_OUTSIDE, evidence, leak.where)
