"""Find a mask that code and its reference both take, and that hides one token from all others."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from .calling import mask_arguments
from .offers import SENSES, SHAPES
from .subject import Subject, SubjectFailed

Make = Callable[[Tensor], Any]  # x -> mask
Called = Callable[[str, Make], Subject]  # (parameter, mask) -> code that is called with it
HIDDEN = 1  # the token


def shared_parameters(code: Callable[..., Any], expect: Callable[..., Any]) -> list[str]:
    """Return the parameters, known to take a mask, that both have."""
    others = mask_arguments(expect)
    return [name for name in mask_arguments(code) if name in others]


def shared_mask(names: list[str], code: Called, expect: Called, x: Tensor) -> tuple[str, Make] | None:
    """Return a parameter and a mask for it by which both hide a token, or else one by which the reference does.

    What a mask means is what the reference makes of it. None if no mask hides the token in the reference.
    """
    first = None
    for name, make in _masks(names):
        if _hides(expect(name, make), x):
            first = first or (name, make)
            if _hides(code(name, make), x):
                return name, make
    return first


def _masks(names: list[str]) -> Iterator[tuple[str, Make]]:
    for name, sense in product(names, SENSES):
        for shape in SHAPES:
            yield name, lambda x, sense=sense, shape=shape: sense(_pairs(x).expand(shape(*x.shape[:2])), x)
        for axes in (1, 3):  # a mask of the keys, (batch, key) or (batch, 1, 1, key)
            yield name, lambda x, sense=sense, axes=axes: sense(_keys(x)[(slice(None), *[None] * (axes - 1))], x)


def _keys(x: Tensor) -> Tensor:
    return (torch.arange(x.shape[1]) != HIDDEN).expand(x.shape[:2])


def _pairs(x: Tensor) -> Tensor:
    own = torch.eye(x.shape[1], dtype=torch.bool)
    return (_keys(x)[:1] | own).tril()


def _hides(subject: Subject, x: Tensor) -> bool:
    """Return whether the later tokens' outputs are finite and stay the same when the hidden token changes."""
    other, code = x.clone(), subject.copy(x.dtype)
    other[:, HIDDEN] += 3.0
    try:
        before, after = (subject.run(given, code)[:, HIDDEN + 1 :] for given in (x, other))
    except (SubjectFailed, IndexError):
        return False
    same = before.shape == after.shape and before.numel() > 0
    return same and bool(before.isfinite().all()) and float((before - after).abs().max()) < 1e-9
