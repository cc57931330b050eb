"""How a case of the bank is written: a function that builds somebody's attention code and what to call it with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

MARK = "# wrong"  # stands at the end of the line that is to blame


@dataclass(frozen=True)
class Case:
    """One piece of attention code, right or wrong.

    Attributes:
        mistake: id of the catalogue, or None for right code.
        make: builds (module or function, x, the options of `diagnose`).
    """

    mistake: str | None
    make: Callable[[], tuple[Callable[..., Any], Tensor, dict[str, Any]]]

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines to blame, as "masks.py:12"; none where the mistake is something that isn't there."""
        source, first = inspect.getsourcelines(self.make)
        file = inspect.getsourcefile(self.make).rsplit("/", 1)[-1]
        return tuple(f"{file}:{first + at}" for at, line in enumerate(source) if line.rstrip().endswith(MARK))

    def __repr__(self) -> str:
        return f"{self.mistake or 'right'}: {self.name}"


def collector() -> tuple[list[Case], Callable[[str | None], Callable]]:
    """A list, and a decorator `case("mask-discarded")` that adds to it."""
    cases: list[Case] = []

    def case(mistake: str | None) -> Callable:
        def add(make: Callable) -> Callable:
            cases.append(Case(mistake, make))
            return make

        return add

    return cases, case


def some_x(batch: int, num_tokens: int, d_in: int, seed: int = 0, spread: float = 1.0) -> Tensor:
    """Tokens (batch, token, d_in) from a generator of their own."""
    return spread * torch.randn(batch, num_tokens, d_in, generator=torch.Generator().manual_seed(seed))
