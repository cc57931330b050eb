"""Arrange scores and weights as (batch, head, query, key), whatever layout the code uses."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .influence import Influence, measure_influence
from .options import Options
from .rows import Rows
from .structure import AfterStructure

NO_WEIGHT = 1e-13


@dataclass(frozen=True, eq=False)
class Attention(AfterStructure):
    """Scores, weights and their influence, in one layout for all code.

    Attributes:
        rows: each with a known sample and query.
        scores: products of queries and keys, nan where the code computes none.
        applied_weights: the weights that multiply the values.
        weights: the effective weights: how strongly the heads' results respond to a change of each token's values, or
            the applied weights where those are nan.
        present: bool (batch, head, query), whether the row was found; a softmax of a single score leaves no row.
        influence: of values and heads on the output.
    """

    rows: Rows
    scores: Tensor
    applied_weights: Tensor
    weights: Tensor
    present: Tensor
    influence: Influence

    @property
    def options(self) -> Options:
        return self.run.options

    @cached_property
    def expected(self) -> Tensor:
        """Which key each query should attend to, bool (batch, head, query, key), in the rows that were found."""
        batch, num_tokens = self.dependence.sizes
        expected = self.options.expected_keep(batch, self.rows.num_heads, num_tokens) & self.present[..., None]
        # Padding that no query may see may itself see nothing: some code sets its rows to 0.
        padding = ~expected.any(2) & (self.weights == 0).all(-1)
        return expected & ~padding[..., None]

    @cached_property
    def seen(self) -> Tensor:
        """Which key each query attends to, bool (batch, head, query, key)."""
        # Where a weight is expected, any size counts; elsewhere, rounding errors are ignored.
        return torch.where(self.expected, self.weights != 0, self.weights.abs() > NO_WEIGHT)

    @cached_property
    def fitted_scale(self) -> Tensor | None:
        """(head,), the factor between scores and weights at the expected keys; None if none fits."""
        return _fit_scale(self.scores, self.weights, self.expected & (self.weights > 0))


def measure_attention(rows: Rows) -> Attention | None:
    """Arrange the rows and measure their influence.

    Returns:
        None if a row has no known sample or query, or none of the rows belongs to a query that should see any key.
    """
    if any(row.query < 0 or row.sample < 0 for row in rows.all):
        return None
    batch, num_tokens = rows.dependence.sizes
    shape = (batch, rows.num_heads, num_tokens, num_tokens)
    scores, applied = torch.full(shape, torch.nan, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    present = torch.zeros(shape[:3], dtype=torch.bool)
    score_cells, applied_cells = scores.numpy(), applied.numpy()  # same memory, thirty times faster to write
    dot_products = rows.scores.dot_products.tolist()
    for row in rows.all:
        present[row.sample, row.head, row.query] = True
        for key, score, weight in zip(row.keys, row.scores, row.weights, strict=True):
            if key >= 0:
                score_cells[row.sample, row.head, row.query, key] = dot_products[score]
                applied_cells[row.sample, row.head, row.query, key] += weight
    influence = measure_influence(rows)
    weights = _weights(applied, influence.weights)
    attention = Attention(rows.structure, rows, scores, applied, weights, present, influence)
    return attention if _expects_any(attention) else None


def _expects_any(attention: Attention) -> bool:
    """Return whether any of the rows should attend to a key; also where `keep` doesn't fit, which rules refuse."""
    try:
        return bool(attention.expected.any())
    except ValueError:
        return True


def _weights(applied: Tensor, effective: Tensor) -> Tensor:
    """Return the effective weights, or the applied weights where those are nan; other nan count as 0."""
    # The applied weights are exact; the effective weights are used where the two differ, as in online softmax.
    same = (effective - applied).abs() < 1e-9
    # A norm behind the value product removes what the columns of a row have in common, and so hides all responses.
    hidden = (effective.abs().nan_to_num().amax(-1, keepdim=True) < 1e-9) & (applied.abs() > 1e-6).any(-1, keepdim=True)
    weights = torch.where(effective.isnan() | same | hidden, applied, effective)
    return weights.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _fit_scale(scores: Tensor, weights: Tensor, visible: Tensor) -> Tensor | None:
    """Fit log(weights) = scale * scores + a term of query and key position + a constant per row.

    All tensors are (batch, head, query, key); `visible` is bool, the pairs to fit.

    Returns:
        (head,), or None if no scale fits or no row has two visible keys.
    """
    usable = visible & (weights > 1e-200) & ~scores.isnan()
    if not (usable.sum(-1) > 1).any():
        return None
    logs = torch.where(usable, weights.clamp(min=1e-300).log(), 0.0)
    scores = torch.where(usable, scores, 0.0)
    # A term that does not depend on the tokens is the same in two samples and drops out of their difference.
    both = usable[:1] & usable[1:]
    for s, w in (
        (_centred(scores, usable), _centred(logs, usable)),
        (_centred(scores[1:] - scores[:1], both), _centred(logs[1:] - logs[:1], both)),
    ):
        power = (s * s).sum((0, 2, 3))
        if (power < 1e-18).any():
            continue
        scale = (s * w).sum((0, 2, 3)) / power
        error = (w - scale[:, None, None] * s).abs().amax((0, 2, 3))
        size = w.abs().amax((0, 2, 3)).clamp(min=1e-3)
        if float((error / size).max()) < 1e-5:
            return scale
    return None


def _centred(tensor: Tensor, used: Tensor) -> Tensor:
    """Subtract the mean of each row; 0 where elements are unused or alone in their row."""
    tensor = torch.where(used, tensor, 0.0)
    count = used.sum(-1, keepdim=True)
    mean = tensor.sum(-1, keepdim=True) / count.clamp(min=1)
    return torch.where(used & (count > 1), tensor - mean, 0.0)
