"""Which line made a mask, laid it out or brought it to the scores."""

from __future__ import annotations

from ..examination import Examination
from ..labels import NOTHING
from ..lines import Line, mask_in, of_local
from ..trace import Operation
from .pipeline import masking, softmaxes

PATTERNS = ("triu", "tril", "triu_", "tril_", "triu_indices", "tril_indices", "lt", "gt", "le", "ge")
TURNS = ("transpose", "t", "permute", "flip", "rot90", "numpy_T")


def masking_line(examination: Examination) -> Line | None:
    """The line that masks; where there is none, that of softmax."""
    found = masking(examination) or softmaxes(examination)
    return found[0].where if found else None


def pattern_line(examination: Examination, *, turned: bool = False) -> Line | None:
    """The line that gave the mask its pattern: a buffer's triangle, a triangle, a comparison, a transpose, a loop."""
    put = masking(examination)
    if not put:  # a loop over queries that takes slices of the keys
        return of_local(examination.anatomy.meetings[0].operation, r"slice|range|\[[^\]]*:[^\]]*\]")
    way = _mask_ways(examination, put[0])
    made = [op for op in way if turned and op.name in TURNS]
    made = made or [op for op in way if op.name in PATTERNS] or [op for op in way if op.in_place]
    if made:
        return made[-1].where
    before = [op.where for op in way if op.where and op.where != put[0].where]
    return mask_in(examination.patient.code, put[0]) or (before[-1] if before else None)


def _mask_ways(examination: Examination, operation: Operation) -> list[Operation]:
    """The operations behind the constant that an operation masks with, in order; its own if it makes the triangle."""
    trace, labels = examination.trace, examination.anatomy.score_labels
    tokens = examination.anatomy.tokens
    masks = [v for v in operation.inputs if (labels[v.number] == NOTHING).all() and not tokens[v.number].any()]
    way = [trace.operations[number] for number in sorted(trace.ancestors(masks))]
    way = [op for op in way if op.outputs and not tokens[op.outputs[0].number].any() and not op.by(trace.examiner)]
    return [*way, operation] if operation.name in PATTERNS else way


def meeting_line(examination: Examination) -> Line | None:
    """The line where a mask that was given meets the code's own or the scores."""
    put = masking(examination)
    if not put:
        return None
    both = [
        op
        for op in _mask_ways(examination, put[-1])
        if op.name.rstrip("_") in ("bitwise_and", "bitwise_or", "logical_and", "logical_or", "repeat", "__and", "__or")
    ]
    return both[-1].where if both else put[-1].where


def alignment_line(examination: Examination, mix: Operation, num_queries: int) -> Line | None:
    """The line that lays the mask out before it is used: its slice, its padding, or the places of the queries."""
    put = [op for op in masking(examination) if op.number < mix.number]
    if not put:
        return None
    own = put[-1].where
    way = [op for op in _mask_ways(examination, put[-1]) if op.where and op.where != own]
    places = [op for op in way if op.name == "arange" and op.outputs[0].tensor.numel() == num_queries]
    return places[-1].where if places else way[-1].where if way else own
