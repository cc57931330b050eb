"""Which keys the queries of each piece of a text see, if attention with a cache has one known mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class WrongCache(NamedTuple):
    """What the result equals, its id in the catalogue or None, a question, and the mask: (query, key) bool."""

    equals: str
    mistake: str | None
    hint: str
    keep: Tensor


def masks_of_wrong_caches(steps: Sequence[int]) -> Iterator[WrongCache]:
    """Yield the known mistakes for a text in pieces of these numbers of tokens; none for a text in one piece."""
    starts = [sum(steps[:piece]) for piece in range(len(steps))]
    keys = torch.arange(sum(steps))
    if len(steps) < 2:
        return

    def mask(sees: Callable[[int, int], Tensor]) -> Tensor:
        """Stack what the queries of each piece see: (query, key) bool from the piece's start and end."""
        return torch.cat([sees(start, start + size) for start, size in zip(starts, steps, strict=True)])

    def causal(start: int, end: int) -> Tensor:
        return keys <= keys[start:end, None]

    def all_so_far(start: int, end: int) -> Tensor:
        return (keys < end).expand(end - start, -1)

    def newest_first(start: int, end: int) -> Tensor:
        """Number the keys in the order in which each piece stands before the older ones."""
        pieces = [keys[one : one + size] for one, size in zip(starts, steps, strict=True) if one < end]
        place = torch.full_like(keys, len(keys))
        place[torch.cat(pieces[::-1])] = torch.arange(end)
        return place <= keys[start:end, None]

    yield WrongCache(
        "attention that forgets the pieces before",
        None,
        "Where is the cache joined to the new keys and values?",
        mask(lambda start, end: causal(start, end) & (keys >= start)),
    )
    yield WrongCache(
        "attention that remembers the last piece only",
        None,
        "Does the cache that you give back hold the older keys and values, too?",
        mask(lambda start, end: causal(start, end) & (keys >= max([0, *(one for one in starts if one < start)]))),
    )
    yield WrongCache(
        "attention with the new tokens in front of the old ones, where the mask takes them for the oldest",
        None,
        "In which order are old and new keys joined?",
        mask(newest_first),
    )
    yield WrongCache(
        "attention under a mask that is aligned at the first key",
        "causal-top-left",
        "Which token is the first query of a later piece? How many keys may it see?",
        mask(lambda start, end: keys <= keys[start:end, None] - start),
    )
    yield WrongCache(
        "attention without a mask within a piece",
        "no-causal-mask",
        "When several tokens come at once, may the first of them see the last?",
        mask(all_so_far),
    )
    yield WrongCache(
        "attention with a mask in the first piece only",
        "no-causal-mask",
        "When several tokens come at once after others, may the first of them see the last?",
        mask(lambda start, end: all_so_far(start, end) if start else causal(start, end)),
    )
    yield WrongCache(
        "attention to the tokens before a piece and not to those in it",
        None,
        "Which keys do the new queries meet: those before or after the new ones are joined?",
        mask(lambda start, end: (keys < start).expand(end - start, -1) if start else causal(start, end)),
    )
