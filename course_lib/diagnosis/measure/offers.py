"""Offer code the causal masks and flags that it has arguments for, before anything is said about the future."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from .calling import call_with, mask_arguments
from .subject import Subject, SubjectFailed

Sense = Callable[[Tensor, Tensor], Tensor]  # (which pairs may attend, x) -> mask


def added(fill: float | None) -> Sense:
    """Return the sense of a mask that is added to the scores, with a number for what is hidden; None for the lowest."""

    def sense(seen: Tensor, x: Tensor) -> Tensor:
        lowest = torch.finfo(x.dtype).min if fill is None else fill
        return torch.zeros(seen.shape, dtype=x.dtype, device=x.device).masked_fill(~seen, lowest)

    return sense


# What True or a number may mean: may attend, must not attend, added to the scores, 1 = may attend, 1 = must not.
SENSES: tuple[Sense, ...] = (
    lambda seen, x: seen,
    lambda seen, x: ~seen,
    added(-torch.inf),
    added(None),
    lambda seen, x: seen.to(x.dtype),
    lambda seen, x: (~seen).to(x.dtype),
)
SHAPES: tuple[Callable[[int, int], tuple[int, ...]], ...] = (
    lambda batch, tokens: (tokens, tokens),
    lambda batch, tokens: (1, 1, tokens, tokens),
    lambda batch, tokens: (batch, 1, tokens, tokens),
    lambda batch, tokens: (batch, tokens, tokens),
)


def masking_subjects(subject: Subject, x: Tensor) -> Iterator[tuple[str, Subject]]:
    """Yield the code with each argument that makes it hide later tokens of x, (batch, token, d_in), and its name."""
    for name, value in _offers(subject.original):
        offered = Subject(subject.original, call_with(subject.original, **{name: value}))
        offered.widened = subject.widened
        if hides_the_future(offered, x):
            yield name, offered


def hides_the_future(subject: Subject, x: Tensor) -> bool:
    """Return whether the last token of x changes its own output and no other one."""
    moves = moved_by_the_last(subject, x)
    return bool(moves) and max(moves[:-1], default=0.0) < 1e-9 < moves[-1]


def moved_by_the_last(subject: Subject, x: Tensor) -> list[float]:
    """Return how far the output of each token moves with the last token of x; [] if that can't be said."""
    code, later = subject.copy(x.dtype), x.clone()
    later[:, -1] += 3.0
    try:
        before, after = subject.run(x, code), subject.run(later, code)
    except SubjectFailed:
        return []
    if before.shape != after.shape or before.dim() != 3 or before.shape[1] != x.shape[1]:
        return []
    return (after - before).abs().nan_to_num(nan=torch.inf).amax((0, 2)).tolist()


def _offers(code: Callable[..., Any]) -> Iterator[tuple[str, Callable[[Tensor], Any]]]:
    for name in mask_arguments(code):
        yield name, lambda x: True
        for sense, shape in product(SENSES, SHAPES):
            yield name, _mask(sense, shape)


def _mask(sense: Sense, shape: Callable[[int, int], tuple[int, ...]]) -> Callable[[Tensor], Tensor]:
    def make(x: Tensor) -> Tensor:
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return sense(seen.expand(shape(*x.shape[:2])), x)

    return make
