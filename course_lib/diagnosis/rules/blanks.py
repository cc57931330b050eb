"""Shares that no token got: a sink's, a learned prefix's, or those of slots that nobody filled."""

from __future__ import annotations

import torch

from ..anatomy import Row, shares_and_values
from ..examination import Examination
from ..labels import NOTHING, carry
from .fit import fit
from .weights import weights_of


def has_sink(examination: Examination) -> bool:
    """Whether every head keeps a share for nobody, as one more score would take it that is the same for all queries."""
    flow, weights = examination.flow, weights_of(examination)
    visible = examination.expected & (weights > 0)
    scale = fit(flow.raw, weights, visible)
    if scale is None or any(row.blanks for row in examination.anatomy.rows):
        return False
    itself = visible.diagonal(dim1=-2, dim2=-1)  # (batch, head, query): who sees its own token
    divided = ((scale[:, None, None] * flow.raw).exp() / weights).diagonal(dim1=-2, dim2=-1)
    rest = divided * (1 - weights.sum(-1))  # what nobody got, before the division
    for head in range(rest.shape[1]):
        mine = rest[:, head][itself[:, head]]
        largest = float(mine.abs().max()) if len(mine) > 1 else torch.nan
        if not (float(mine.min()) > -1e-9 and float(mine.max() - mine.min()) <= 1e-4 * largest + 1e-9):
            return False
    return True


def has_prefix(examination: Examination) -> bool:
    """Whether what the tokens did not get went to learned values, as with a prefix."""
    rows = examination.anatomy.rows
    return any(row.blanks for row in rows) and all(
        abs(sum(row.shares) + _learned_share(examination, row) - 1) < 1e-6 for row in rows
    )


def is_strange(examination: Examination, row: Row) -> bool:
    """Whether numbers that belong to no token, and that nobody learned, got a share."""
    return bool(row.blanks) and abs(sum(row.shares) + _learned_share(examination, row) - 1) > 1e-6


def _learned_share(examination: Examination, row: Row) -> float:
    """What a row gives to values that are a parameter's."""
    (share, shares), (value, values) = shares_and_values(examination.anatomy, row.mix)
    first = row.outs[0]
    learned = _learned(examination)[value.number].flatten()[values[first]] != NOTHING
    tokenless = examination.anatomy.single(value).flatten()[values[first]] == NOTHING
    return float(share.tensor.flatten()[shares[first]][learned & tokenless].double().sum())


def _learned(examination: Examination) -> list[torch.Tensor]:
    """For each value, which numbers are a parameter's that nothing but layout changed."""
    if examination.learned is None:
        leaves = [value for values in examination.leaves.values() for value in values]
        start = {value.number: torch.zeros(value.tensor.shape, dtype=torch.int64) for value in leaves}
        examination.learned = carry(examination.trace, start)
    return examination.learned
