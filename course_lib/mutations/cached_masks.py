"""The table of what goes wrong with a cache: which keys the queries of each piece of a text see."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .steps import masked
from .wrong_steps import WrongSteps


@dataclass(frozen=True)
class Pieces:
    """A text in pieces of these numbers of tokens. Every mask is (query, key) bool."""

    steps: Sequence[int]

    @cached_property
    def starts(self) -> list[int]:
        return [sum(self.steps[:piece]) for piece in range(len(self.steps))]

    @cached_property
    def keys(self) -> Tensor:
        return torch.arange(sum(self.steps))

    def mask(self, sees: Callable[[int, int], Tensor]) -> Tensor:
        """Stack what the queries of each piece see, from the piece's start and end."""
        return torch.cat([sees(start, start + size) for start, size in zip(self.starts, self.steps, strict=True)])

    def causal(self, start: int, end: int) -> Tensor:
        return self.keys <= self.keys[start:end, None]

    def all_so_far(self, start: int, end: int) -> Tensor:
        return (self.keys < end).expand(end - start, -1)

    def newest_first(self, start: int, end: int) -> Tensor:
        """Number the keys in the order in which each piece stands before the older ones."""
        ends = zip(self.starts, self.steps, strict=True)
        pieces = [self.keys[one : one + size] for one, size in ends if one < end]
        index = torch.full_like(self.keys, len(self.keys))
        index[torch.cat(pieces[::-1])] = torch.arange(end)
        return index <= self.keys[start:end, None]


def wrong_caches(steps: Sequence[int]) -> Iterator[WrongSteps]:
    """Yield the known mistakes for a text in pieces of these numbers of tokens; none for a text in one piece."""
    if len(steps) > 1:
        yield from _of_joined_keys(Pieces(steps))
        yield from _of_masks(Pieces(steps))


def _of_joined_keys(pieces: Pieces) -> Iterator[WrongSteps]:
    yield _under(
        "attention that forgets the pieces before",
        "",
        "Where is the cache joined to the new keys and values?",
        pieces.mask(lambda start, end: pieces.causal(start, end) & (pieces.keys >= start)),
    )
    yield _under(
        "attention that remembers the last piece only",
        "",
        "Does the cache that you give back hold the older keys and values, too?",
        pieces.mask(
            lambda start, end: (
                pieces.causal(start, end) & (pieces.keys >= max([0, *(one for one in pieces.starts if one < start)]))
            )
        ),
    )
    yield _under(
        "attention with the new tokens in front of the old ones, where the mask takes them for the oldest",
        "",
        "In which order are old and new keys joined?",
        pieces.mask(pieces.newest_first),
    )


def _of_masks(pieces: Pieces) -> Iterator[WrongSteps]:
    yield _under(
        "attention under a mask that is aligned at the first key",
        "causal-top-left",
        "Which token is the first query of a later piece? How many keys may it see?",
        pieces.mask(lambda start, end: pieces.keys <= pieces.keys[start:end, None] - start),
    )
    yield _under(
        "attention in which the mask of several tokens is aligned at the first key",
        "causal-top-left",
        "Which token is the first query of a later piece? How many keys may it see?",
        pieces.mask(
            lambda start, end: (
                pieces.keys <= pieces.keys[start:end, None] - start
                if end - start > 1
                else pieces.all_so_far(start, end)
            )
        ),
    )
    yield _under(
        "attention without a mask within a piece",
        "no-causal-mask",
        "When several tokens come at once, may the first of them see the last?",
        pieces.mask(pieces.all_so_far),
    )
    yield _under(
        "attention with a mask in the first piece only",
        "no-causal-mask",
        "When several tokens come at once after others, may the first of them see the last?",
        pieces.mask(lambda start, end: pieces.all_so_far(start, end) if start else pieces.causal(start, end)),
    )
    yield _under(
        "attention to the tokens before a piece and not to those in it",
        "",
        "Which keys do the new queries meet: those before or after the new ones are joined?",
        pieces.mask(
            lambda start, end: (pieces.keys < start).expand(end - start, -1) if start else pieces.causal(start, end)
        ),
    )


def _under(equals: str, mistakes: str, hint: str, keep: Tensor) -> WrongSteps:
    """Attention in which the keys that a query sees are these: (query, key) bool."""
    return WrongSteps(equals, mistakes, hint, weigh=lambda scores, _: masked(scores, keep))
