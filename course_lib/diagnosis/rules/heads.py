"""Each head must have weights and scores of its own."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from ..contraction import Contraction
from ..examination import Examination
from ..labels import NOTHING
from ..lines import Line, line_at, of_attribute
from ..report import Finding
from ..trace import Operation
from .weights import picture_of_heads


def check_heads(examination: Examination) -> Iterator[Finding]:
    """Each head must have its own scores and its own weights."""
    anatomy, flow = examination.anatomy, examination.flow
    heads = anatomy.num_heads
    first = {row.head: row for row in reversed(anatomy.rows)}
    queries = {row.query_source for row in first.values()}
    values = {row.value_sources[0] for row in first.values()}
    told = examination.num_heads or 1
    meeting = anatomy.meetings[0]
    if heads > 1 and len(queries) == 1:
        if len(values) > 1:
            yield _shared_scores(examination, meeting, f"{heads} heads mix different values with the same queries")
        else:
            yield _shared_weights(examination, heads)
        return
    if heads > 1 and examination.num_kv_heads in (None, heads):
        shares = flow.operand
        varied = (shares.amax(-1) - torch.where(shares > 0, shares, torch.inf).amin(-1)).max() > 1e-9
        if varied and bool(((shares - shares[:, :1]).abs() < 1e-12).all()):
            yield _shared_scores(examination, meeting, f"the weights of all {heads} heads are equal to 12 digits")
            return
    if heads == 1 and told > 1:
        width = len(anatomy.rows[0].outs)
        if meeting.size % told == 0 and width % told == 0 and (width >= told) and flow.finished:
            yield _shared_scores(
                examination,
                meeting,
                f"there is one pattern of weights for {told} heads; a score adds up {meeting.size} products",
            )


def _shared_scores(examination: Examination, meeting: Contraction, words: str) -> Finding:
    where = _sharing_line(examination) or meeting.operation.where
    return Finding.named("heads-share-scores", words, where, lambda: picture_of_heads(examination))


def _sharing_line(examination: Examination) -> Line | None:
    """The line that picks one head's scores for all, or reads scores that are another head's."""
    anatomy, alive = examination.anatomy, examination.alive
    labels = anatomy.score_labels
    idle = any(meeting.operation.number not in alive for meeting in anatomy.meetings)
    readers: dict[int, list[Operation]] = {}
    for operation in examination.trace.operations:
        if operation.number not in anatomy.below & alive or not operation.outputs:
            continue
        if not (labels[operation.outputs[0].number] != NOTHING).any():
            continue
        value = operation.inputs[0]
        if operation.name in ("select", "slice") and operation.outputs[0].tensor.numel() < value.tensor.numel():
            return operation.where
        readers.setdefault(value.number, []).append(operation)
    several = [found for found in readers.values() if len(found) > 1]
    return line_at(several[0][0].outermost) if idle and several else None


def check_scores_merged(examination: Examination) -> Iterator[Finding]:
    """A sum or mean on the way from scores to weights that runs over heads."""
    anatomy = examination.anatomy
    for operation in examination.trace.operations:
        if operation.name not in ("sum", "mean") or operation.number not in anatomy.below & examination.alive:
            continue
        value = operation.inputs[0]
        labels = anatomy.score_labels[value.number]
        axes = operation.args[1] if len(operation.args) > 1 else None
        if not axes or len(axes) != 1 or (labels == NOTHING).any():
            continue
        axis = axes[0] % labels.dim()
        if labels.shape[axis] < 2:
            continue
        a, b, s = anatomy.first[labels], anatomy.second[labels], anatomy.score_sample[labels]
        if not any((one.diff(dim=axis) != 0).any() for one in (a, b, s)):
            yield Finding.named(
                "heads-share-scores",
                f"`{operation.name}` runs over the {labels.shape[axis]} heads of the scores",
                operation.where,
            )
            return


def _shared_weights(examination: Examination, heads: int) -> Finding:
    code = examination.patient.code
    where = None
    if isinstance(code, nn.Module):
        for name, module in code.named_modules():
            if (
                isinstance(module, (nn.ModuleList, nn.Sequential))
                and len(module) > 1
                and len({id(m) for m in module}) == 1
            ):
                where = of_attribute(code, name.split(".")[-1])
    return Finding.named(
        "heads-share-weights",
        f"the queries, keys and values of all {heads} heads come from the same columns of weights",
        where or _copying(examination),
        lambda: picture_of_heads(examination),
    )


def _copying(examination: Examination) -> str | None:
    """The line that makes several heads of one: it repeats weights or what they projected, or calls the same again."""
    anatomy, trace = examination.anatomy, examination.trace
    way = trace.ancestors([value for value, _ in anatomy.meetings[0].sides()])
    projected = {p.out.number for p in anatomy.projections}
    made = trace.below({p.operation.number for p in anatomy.projections})
    for number in sorted(way):
        operation = trace.operations[number]
        if operation.name not in ("expand", "repeat", "stack", "cat", "index"):
            continue
        grows = operation.outputs[0].tensor.numel() > operation.inputs[0].tensor.numel()
        ours = number in made or not anatomy.tokens[operation.outputs[0].number].any()
        if grows and (ours or operation.inputs[0].number in projected):
            return operation.where
    return line_at(anatomy.projections[-1].operation.outermost) if anatomy.projections else None
