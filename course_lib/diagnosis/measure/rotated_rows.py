"""The queries and keys of a run in which all tokens are the same, so that only their positions differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.tracing import Contraction, Value

from .attention import Attention
from .projections import ColumnSet
from .rows import Row, Rows

SAME = 1e-5  # angles may be rounded to float32


Stream = frozenset[int] | None
Group = tuple[int, Stream, Stream]


@dataclass(frozen=True, eq=False)
class RotatedRow:
    """One row of a run in which all tokens are the same.

    Attributes:
        row: of the run on x.
        query: the query, (c,).
        keys: the keys that it should attend to, (key, c).
        tokens: of these keys.
        group: the head and, in joint attention, the streams of tokens of the query and of the keys; rows of one group
            differ by position alone, because the same weights project them.
    """

    row: Row
    query: Tensor
    keys: Tensor
    tokens: list[int]
    group: Group

    @property
    def own_cosine(self) -> float | None:
        """The cosine between the query and the key of the same token; None if it does not attend to that key."""
        if self.row.query not in self.tokens:
            return None
        key = self.keys[self.tokens.index(self.row.query)]
        return float(torch.cosine_similarity(self.query, key, dim=0))

    def equal_keys(self) -> tuple[int, int] | None:
        """Return two of the tokens whose keys are equal, or None."""
        near = torch.cdist(self.keys, self.keys) <= SAME * self.keys.norm(dim=-1).max()
        pairs = near.triu(1).nonzero().tolist()
        return (self.tokens[pairs[0][0]], self.tokens[pairs[0][1]]) if pairs else None


def rotated_rows(attention: Attention, among: Sequence[Contraction] = ()) -> list[RotatedRow]:
    """Return the first sample's rows of a run in which all tokens are the first token; [] if they are complex.

    Rows of zeros are left out, because they show no angle: keys of a context have columns of their own, which a token
    that is not of the context leaves empty.

    Args:
        attention: what was measured.
        among: of scores that are sums of products, those to take queries and keys from; whichever is found if empty.
    """
    rows, found = attention.rows, []
    for row in rows.all:
        product, element = rows.scores.origin_of(row.scores[0])
        if among and product not in among:
            product = _beside(product, among)
            if product is None:
                return []
        visible = [
            (key, score - row.scores[0] + element)
            for key, score in zip(row.score_keys, row.scores, strict=True)
            if key >= 0 and attention.expected[0, row.head, row.query, key]
        ]
        elements = [element for _, element in visible]
        if row.sample or not visible or min(elements) < 0 or max(elements) >= product.out.tensor.numel():
            continue
        sides = [_elements(attention, side, elements) for side in product.sides()]
        if any(side.is_complex() for side in sides):
            return []
        query, keys = sides if rows.scores.keys_are_right(row.product) else sides[::-1]
        if not (query.any() and keys.any()):
            continue
        own = {key: _stream_of(rows, one) for key, one in zip(row.score_keys, row.key_columns, strict=True)}
        streams = [own[key] for key, _ in visible]
        for stream in dict.fromkeys(streams):
            chosen = [index for index, one in enumerate(streams) if one == stream]
            tokens = [visible[index][0] for index in chosen]
            group = (row.head, _stream_of(rows, row.query_columns), stream)
            found.append(RotatedRow(row, query[0], keys[chosen], tokens, group))
    return found


def _stream_of(rows: Rows, columns: ColumnSet) -> Stream:
    """Return the tokens that the same weights project; None for pieces, whose tokens are never projected together."""
    return None if rows.in_pieces else rows.structure.tokens_of_column.get(columns[0])


def _beside(product: Contraction, among: Sequence[Contraction]) -> Contraction | None:
    """Return the nearest of some products that is added to another element by element; None without one."""
    alike = [one for one in among if one.out.tensor.shape == product.out.tensor.shape]
    return min(alike, key=lambda one: abs(one.operation.number - product.operation.number), default=None)


def _elements(attention: Attention, side: tuple[Value, Tensor], elements: list[int]) -> Tensor:
    value, which = side
    made = attention.run.with_equal_tokens[value.number].flatten()[which[elements]]
    return made if made.is_complex() else made.double()
