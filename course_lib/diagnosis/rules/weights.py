"""The weights that count, and the pictures that show them beside what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..examination import Examination

if TYPE_CHECKING:
    from course_lib.pictures import Picture

TINY = 1e-13


def seen_pattern(examination: Examination) -> Tensor:
    """Who sees whom, (batch, head, query, key)."""
    weights = weights_of(examination)
    # Hardly any weight is still some where it is meant; where it is not, rounding is not held against the code.
    return torch.where(examination.expected, weights != 0, weights.abs() > TINY)


def weights_of(examination: Examination) -> Tensor:
    """The weights that count, with the operand's own where nan spoiled the output; nan is nothing."""
    flow = examination.flow
    # What the values were multiplied with is exact; what they did counts where the two differ, as in online softmax.
    same = (flow.shares - flow.operand).abs() < 1e-9
    shares = torch.where(flow.shares.isnan() | same, flow.operand, flow.shares)
    return shares.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def picture_of(examination: Examination) -> Picture | None:
    """The weights of head 0 beside those that were meant, or alone where no others can be said; None for no weights."""
    from course_lib.pictures import compare, heatmap

    weights, raw = weights_of(examination)[0, 0], examination.flow.raw[0, 0]
    expected = examination.expected[0, 0]
    if (weights < 0).any() or (weights > 1 + 1e-9).any():
        return None
    words = [f"token {number}" for number in range(len(weights))]
    if raw.isnan().any():  # not every query met every key
        return heatmap(weights.clamp(max=1), words)
    right = (raw * examination.anatomy.head_dim**-0.5).masked_fill(~expected, -torch.inf).softmax(-1).nan_to_num()
    return compare(weights.clamp(max=1), right, words, names=("your head 0", "attention"))


def picture_of_heads(examination: Examination) -> Picture | None:
    """The weights of all heads side by side."""
    from course_lib.pictures import head_heatmaps

    weights = weights_of(examination)[0]
    if (weights < 0).any() or (weights > 1 + 1e-9).any():
        return None
    return head_heatmaps(weights.clamp(max=1), [f"token {number}" for number in range(weights.shape[-1])])


def picture_of_layout(examination: Examination) -> Picture | None:
    """The patient's own changes of layout, as they ran."""
    from course_lib.pictures import layout_steps
    from course_lib.recorder import record

    patient = examination.patient
    try:
        return layout_steps(record(lambda x: patient.call(patient.code, x), examination.x))
    except (ValueError, TypeError, RuntimeError):
        return None
