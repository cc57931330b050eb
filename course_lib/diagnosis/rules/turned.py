"""Queries and keys of a run in which every token is the same: what still differs is their turning."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..anatomy import Row, key_sides
from ..examination import Examination
from ..trace import Value
from .projections import meeting_of

SAME = 1e-5  # angles may be rounded to 32 bits


@dataclass(eq=False)
class Turned:
    """A row of scores with the same token everywhere.

    Attributes:
        row: of the run with x.
        query: the query's numbers, (c,).
        keys: those of the keys that it should see, (key, c).
        tokens: of these keys.
    """

    row: Row
    query: Tensor
    keys: Tensor
    tokens: list[int]

    @property
    def own(self) -> float | None:
        """How well the query fits its own token's key: 1 for the same direction; None where it does not see that."""
        if self.row.query not in self.tokens:
            return None
        key = self.keys[self.tokens.index(self.row.query)]
        return float(torch.cosine_similarity(self.query, key, dim=0))

    def pair_alike(self) -> tuple[int, int] | None:
        """Two of the tokens whose keys are the same numbers, or None."""
        near = torch.cdist(self.keys, self.keys) <= SAME * self.keys.norm(dim=-1).max()
        pairs = near.triu(1).nonzero().tolist()
        return (self.tokens[pairs[0][0]], self.tokens[pairs[0][1]]) if pairs else None


def turned_rows(examination: Examination) -> list[Turned]:
    """The rows of the first sample, with the numbers that queries and keys have if all tokens are the first one."""
    anatomy = examination.anatomy
    seen = examination.trace.replay(examination.x[:, :1].expand_as(examination.x).contiguous())
    sides = key_sides(anatomy)
    begin, starts = 0, {}
    for meeting in anatomy.meetings:
        starts[id(meeting)] = begin
        begin += meeting.out.tensor.numel()
    found = []
    for row in anatomy.rows:
        if row.sample != 0 or row.query < 0:
            continue
        meeting = meeting_of(anatomy, row)
        visible = [
            (key, label - starts[id(meeting)])
            for key, label in zip(row.score_keys, row.scores, strict=True)
            if key >= 0 and examination.expected[0, row.head, row.query, key]
        ]
        places = [at for _, at in visible]
        if not visible or min(places) < 0 or max(places) >= meeting.out.tensor.numel():
            continue
        numbers = [_numbers(seen, side, places) for side in meeting.sides()]
        if any(one.is_complex() for one in numbers):
            return []
        query, keys = numbers if sides[row.mix.operation.frames[:1]] >= 0 else numbers[::-1]
        found.append(Turned(row, query[0], keys, [key for key, _ in visible]))
    return found


def _numbers(seen: list[Tensor], side: tuple[Value, Tensor], places: list[int]) -> Tensor:
    value, which = side
    numbers = seen[value.number].flatten()[which[places]]
    return numbers if numbers.is_complex() else numbers.double()


def turned_only(by_head: list[list[Turned]]) -> bool:
    """Whether queries and keys have the same length in every place: turning keeps it, adding positions does not."""
    for rows in by_head:
        for vectors in (torch.stack([one.query for one in rows]), torch.cat([one.keys for one in rows])):
            lengths = vectors.norm(dim=-1)
            if float(lengths.max() - lengths.min()) > SAME * float(lengths.max()):
                return False
    return True
