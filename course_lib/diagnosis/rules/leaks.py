"""All that should be seen is seen, and some of what should be hidden is, too: why?"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.recorder.source import place_around

from ..examination import Examination
from ..labels import NOTHING
from ..lines import Line, line_at, mask_in
from ..report import Finding
from ..trace import Operation
from .fit import fit
from .pipeline import MASKS, after_softmax, masking, pipeline, softmaxes
from .weights import TINY, picture_of, weights_of


def check_leak(examination: Examination, hidden: Tensor, leak: str) -> Iterator[Finding]:
    """Name the reason, the likeliest first.

    Args:
        examination: of the patient.
        hidden: (batch, head, query, key), who is seen and should not be.
        leak: how much, in words.
    """
    put, zero, discarded = masking(examination), _as_one_number(examination, hidden), _discarded(examination)
    late, small = after_softmax(examination, put), _mask_of_one(examination)
    if zero is not None and put:
        found = "mask-with-zero", f"all hidden scores count as {zero:.4g}; {leak}", put[0].where
    elif discarded is not None:
        words = f"the result of `{discarded.name.rstrip('_')}` is never used, and {leak}"
        found = "mask-discarded", words, thrown_away(discarded) or discarded.where
    elif late:
        found = "mask-after-softmax", leak, late[0].where
    elif small is not None:
        shape = tuple(small.inputs[1].tensor.shape)
        words = f"the mask has the shape {shape} for {hidden.shape[-1]} tokens, is broadcast and hides nothing: {leak}"
        found = "fixed-length", words, mask_in(examination.patient.code, small) or small.where
    else:
        all_seen = (weights_of(examination).abs()[examination.expected.any(-1)] > TINY).all()
        who = "every token sees every other one" if all_seen else "tokens are seen that should be hidden"
        found = "no-causal-mask", f"{who}: {leak}", _idle_line(examination)
    yield Finding.named(*found, lambda: picture_of(examination))


def _as_one_number(examination: Examination, hidden: Tensor) -> float | None:
    """The number that all hidden scores were replaced with before softmax, or None if there is no such number."""
    raw, weights = examination.flow.raw, weights_of(examination)
    found = fit(raw, weights, examination.expected & ~raw.isnan())
    if found is None:
        return None
    fills = []
    for sample, head, query in hidden.any(-1).nonzero().tolist():
        there, shares = hidden[sample, head, query], weights[sample, head, query]
        if (shares[there] <= 0).any() or float(shares[there].max() - shares[there].min()) > 1e-9:
            return None
        anchor = examination.expected[sample, head, query].nonzero()[0, 0]
        fill = torch.log(shares[there][0] / shares[anchor]) + found[head] * raw[sample, head, query, anchor]
        fills.append(float(fill))
    same = fills and max(fills) - min(fills) <= 1e-5 * (1 + abs(fills[0]))
    return fills[0] if same else None


def _discarded(examination: Examination) -> Operation | None:
    """The operation that made a masked copy of the scores that nothing reads."""
    labels = examination.anatomy.score_labels
    for operation in examination.trace.operations:
        masks = operation.name in (*MASKS, "add", "sub", "mul", "zero_") and operation.number not in examination.alive
        if masks and operation.outputs and (labels[operation.outputs[0].number] != NOTHING).any():
            return operation
    return None


def thrown_away(operation: Operation) -> Line | None:
    """The statement that drops a result: the innermost one that neither assigns nor returns it; None for none."""
    for frame in operation.frames:
        if frame[0].co_name.startswith("<"):  # a comprehension: the statement around it counts
            continue
        place = place_around(*frame)
        if not any(place.names) and not place.source.startswith("return"):
            return line_at(place)
    return None


def _mask_of_one(examination: Examination) -> Operation | None:
    """The operation that masks with one number for all pairs."""
    tokens = examination.anatomy.tokens
    for operation in pipeline(examination):
        value = operation.inputs[1] if len(operation.inputs) > 1 else None
        if value is not None and value.tensor.shape[-2:] == (1, 1) and not tokens[value.number].any():
            return operation
    return None


def _idle_line(examination: Examination) -> Line | None:
    """The line of a mask that hides nothing, else that of softmax, before which one is missing."""
    idle = [op for op in pipeline(examination) if op.name in MASKS]
    if idle:
        return mask_in(examination.patient.code, idle[0]) or idle[0].where
    soft = softmaxes(examination)
    return soft[0].where if soft else None
