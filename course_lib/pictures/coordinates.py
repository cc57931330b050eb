"""Which sample, token, head and column within the head each element belongs to, and how that colours and names it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .style import PLAIN, head_color

AXES = ("sample", "token", "head", "column")
SEVERAL = -1  # in place of an index if an element is read several times and belongs to several


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The coordinates of each element, by its number."""

    sample: Tensor  # (element,)
    token: Tensor
    head: Tensor
    column: Tensor  # within the head
    num_heads: int  # 1 if heads cannot be distinguished

    @classmethod
    def of(cls, elements: Tensor, axes: Sequence[Tensor]) -> Coordinates:
        """Build coordinates from the number of each element, -1 for none, and its index along each of AXES."""
        known = elements.flatten() >= 0
        numbers = elements.flatten()[known]
        total = int(numbers.max()) + 1 if len(numbers) else 0
        along = torch.stack([axis.flatten()[known] for axis in axes])  # (axis, known element)
        low, high = (
            along.new_zeros(len(axes), total).scatter_reduce(
                1, numbers.expand_as(along), along, end, include_self=False
            )
            for end in ("amin", "amax")
        )
        indices = torch.where(low == high, low, SEVERAL)  # (axis, element)
        return cls(*indices, num_heads=max([1, *(indices[2].unique() + 1).tolist()]))

    @classmethod
    def unknown(cls, count: int) -> Coordinates:
        """Return coordinates for elements of which nothing is known."""
        return cls(*(torch.full((count,), SEVERAL) for _ in AXES), num_heads=1)

    def __len__(self) -> int:
        return len(self.head)

    def roles(self, elements: Tensor) -> list[str]:
        """Return one word per axis of a tensor that holds the numbers of elements, with -1 for none.

        "sample", "token", "head" or "column" if the axis, and no other, counts it; "width" if heads and their columns
        lie side by side; "one" for an axis that counts nothing; "scattered" if tokens lie along several axes, as in
        a scrambled tensor; else "mixed".
        """
        known = elements.clamp(min=0)
        varying: list[set[str]] = [set() for _ in elements.shape]
        for name in AXES:
            along = getattr(self, name)[known]
            for axis, size in enumerate(elements.shape):
                if size > 1 and bool((along.diff(dim=axis) != 0).any()):
                    varying[axis].add(name)
        return [_role(names, varying) for names in varying]

    def axis_names(self, elements: Tensor) -> list[tuple[str, list[int]] | None]:
        """Return for each axis ("token" | "head" | "sample", values along it), or None if it counts none of these."""
        names: list[tuple[str, list[int]] | None] = [None] * elements.dim()
        if bool((elements < 0).any()):
            return names
        for axis, role in enumerate(self.roles(elements)):
            if role in ("sample", "token", "head"):
                values = getattr(self, role)[elements.movedim(axis, 0).flatten(1)[:, 0]]
                names[axis] = (role, values.tolist()) if int(values.min()) >= 0 else None
        return names


@dataclass(frozen=True, eq=False)
class Legend:
    """What the panels of one picture have in common."""

    coordinates: Coordinates
    words: Sequence[str]  # labels of the tokens; indices if there are too few
    highlight: int | None  # the number of the outlined element

    def head(self, element: int) -> int:
        """Return the head of an element, -1 if it has none or there is only one head."""
        if element < 0 or self.coordinates.num_heads < 2:
            return -1
        return int(self.coordinates.head[element])

    def color(self, element: int) -> str:
        head = self.head(element)
        return PLAIN if head < 0 else head_color(head)

    def token_label(self, token: int) -> str:
        return self.words[token] if token < len(self.words) else f"token {token}"

    @property
    def highlighted_owner(self) -> str:
        """Name what the highlighted element belongs to, such as "work, head 1"; "" if nothing is known."""
        if self.highlight is None:
            return ""
        token, head = int(self.coordinates.token[self.highlight]), self.head(self.highlight)
        owners = [self.token_label(token)] if token >= 0 else []
        return ", ".join([*owners, f"head {head}"] if head >= 0 else owners)


def _role(names: set[str], varying: list[set[str]]) -> str:
    if not names:
        return "one"
    if all(name not in other for name in names for other in varying if other is not names):
        if len(names) == 1:
            return next(iter(names))
        if names == {"head", "column"}:
            return "width"
    return "scattered" if sum("token" in other for other in varying) > 1 and "token" in names else "mixed"


def axes_in_width(shape: Sequence[int], num_heads: int = 1, head_dim: int | None = None) -> tuple[Tensor, ...]:
    """Return sample, token, head and column of each element of (..., token, width), with heads side by side.

    The heads fill the width, or are narrower if a packed width holds them several times.
    """
    num_tokens, width = (1, 1, *shape)[-2:]
    head_dim = head_dim or max(width // num_heads, 1)
    element = torch.arange(math.prod(shape)).view(tuple(shape))
    row, column = element // max(width, 1), element % max(width, 1)
    return row // max(num_tokens, 1), row % max(num_tokens, 1), column // head_dim % num_heads, column % head_dim


def axes_by_head(shape: Sequence[int], *, token_first: bool = False) -> tuple[Tensor, ...]:
    """Return the same for each element of (..., head, token, head_dim), or of (..., token, head, head_dim)."""
    outer, inner, head_dim = tuple(shape)[-3:]
    element = torch.arange(math.prod(shape)).view(tuple(shape))
    row = element // head_dim
    first, second = row // inner % outer, row % inner
    token, head = (first, second) if token_first else (second, first)
    return row // (inner * outer), token, head, element % head_dim
