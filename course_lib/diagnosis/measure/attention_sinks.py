"""Attention weights that no token of x receives: of a sink, a learned prefix, a memory or slots never filled."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, propagate

from .attention import Attention
from .rows import Row, Rows


@dataclass(frozen=True, eq=False)
class TokenlessWeights:
    """The attention weights of values that belong to no token."""

    rows: Rows

    @cached_property
    def is_prefix(self) -> bool:
        """Whether all weights that no token receives belong to values that are meant, as of a prefix or a memory."""
        rows = self.rows.all
        return any(row.tokenless or self._meant_weight(row) for row in rows) and all(map(self._is_complete, rows))

    def unexplained(self, row: Row) -> bool:
        """Return whether elements that belong to neither a token nor a prefix or memory received a weight."""
        return bool(row.tokenless) and not self._is_complete(row)

    def _is_complete(self, row: Row) -> bool:
        return abs(sum(row.weights) + self._meant_weight(row) - 1) <= 1e-6

    def _meant_weight(self, row: Row) -> float:
        """Return the weight that a row gives to learned values, zeros around a grid, and one key of zeros."""
        weights, learned, zeros = self._of_no_token(row)
        return float(weights[learned | zeros if self._has_zero_key or self._has_padding else learned].sum())

    def _of_no_token(self, row: Row) -> tuple[Tensor, Tensor, Tensor]:
        """Return a row's weights of values of no token; which are read from a parameter or projected; which are 0."""
        (weights, weights_at), (values, values_at) = self.rows.scores.weights_and_values(row.product)
        first = row.outputs[0]
        learned = self._learned[values.number].flatten()[values_at[first]] != UNLABELLED
        learned |= (self.rows.structure.columns[values.number].flatten()[values_at[row.outputs]] != UNLABELLED).all(0)
        zeros = values.tensor.flatten()[values_at[row.outputs]].eq(0).all(0)
        tokenless = self.rows.dependence.token_of(values).flatten()[values_at[first]] == UNLABELLED
        applied = weights.tensor.flatten()[weights_at[first]].double()
        return applied[tokenless], learned[tokenless], zeros[tokenless]

    @cached_property
    def _has_zero_key(self) -> bool:
        """Whether each row has one key of zeros, as with `add_zero_attn`; a cache may have empty slots instead."""
        if self.rows.in_pieces:
            return False
        counts = [(zeros & ~learned).sum() for _, learned, zeros in map(self._of_no_token, self.rows.all)]
        return {int(count) for count in counts} == {1}

    @cached_property
    def _has_padding(self) -> bool:
        """Whether patches of a grid are cut, with zeros around it."""
        return not self.rows.in_pieces and any(one.name == "im2col" for one in self.rows.run.live_operations)

    @cached_property
    def _learned(self) -> list[Tensor]:
        """For each value, label the elements that layout alone separates from a parameter, or what that made."""
        trace = self.rows.trace
        reads = [value for values in self.rows.run.parameter_reads.values() for value in values]
        numbers = {value.number for value in reads}
        readers = {one.number for one in trace.operations if any(value.number in numbers for value in one.inputs)}
        memories = trace.descendants(readers) - trace.descendants_of_input()
        made = [value for one in trace.operations if one.number in memories for value in one.outputs]
        start = {value.number: torch.zeros(value.tensor.shape, dtype=torch.int64) for value in (*reads, *made)}
        return propagate(trace, start)


def has_sink(attention: Attention, logits: Tensor | None = None) -> bool:
    """Return whether every head keeps weight from all tokens, as one more score that all queries share does.

    The first sample's logits (head, query, key) are needed where the scores are not only multiplied, as by a soft cap.
    """
    weights, scale = attention.weights, attention.fitted_scale
    if any(row.tokenless for row in attention.rows.all):
        return False
    if logits is not None:
        weights, logits = weights[:1], logits[None]
    elif scale is not None:
        logits = scale[:, None, None] * attention.scores
    else:
        return False
    seen = attention.expected[: len(weights)] & (weights > 0)
    sees_itself = seen.diagonal(dim1=-2, dim2=-1)  # (batch, head, query)
    denominator = (logits.exp() / weights).diagonal(dim1=-2, dim2=-1)
    rest = denominator * (1 - weights.sum(-1))  # the sink's part before the division
    return all(_is_constant(rest[:, head][sees_itself[:, head]]) for head in range(rest.shape[1]))


def _is_constant(rest: Tensor) -> bool:
    """Return whether all elements are equal and not negative; true if there are none, where no token sees itself."""
    if not len(rest):
        return True
    largest = float(rest.abs().max()) if len(rest) > 1 else torch.nan
    return float(rest.min()) > -1e-9 and float(rest.max() - rest.min()) <= 1e-4 * largest + 1e-9
