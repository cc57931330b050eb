"""What a number of a tensor means: which sample, token, head and place in the head it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .chains import Chain, Stage

COORDINATES = ("sample", "token", "head", "place")


@dataclass(frozen=True)
class Meaning:
    """The coordinates of each number of a chain, by its number.

    Attributes:
        sample, token, head, place: (number of elements,) int; `place` counts within the head.
        num_heads: how many heads there are; 1 where none can be told apart.
    """

    sample: Tensor
    token: Tensor
    head: Tensor
    place: Tensor
    num_heads: int

    def roles(self, numbers: Tensor) -> list[str]:
        """Say what each axis of a tensor of numbers counts.

        Args:
            numbers: of any shape, as in a Stage.

        Returns:
            One word an axis: "sample", "token", "head" or "place" where that, and no other axis, counts it; "width"
            where heads and their places lie side by side; "one" for an axis that counts nothing; "scattered" where
            tokens are spread over several axes, the mark of a scrambled tensor; else "mixed".
        """
        known = numbers.clamp(min=0)
        varying: list[set[str]] = [set() for _ in numbers.shape]
        for name in COORDINATES:
            along = getattr(self, name)[known]
            for axis, size in enumerate(numbers.shape):
                if size > 1 and bool((along.diff(dim=axis) != 0).any()):
                    varying[axis].add(name)
        return [self._role(own, varying) for own in varying]

    def _role(self, own: set[str], varying: list[set[str]]) -> str:
        if not own:
            return "one"
        if all(name not in other for name in own for other in varying if other is not own):
            if len(own) == 1:
                return next(iter(own))
            if own == {"head", "place"}:
                return "width"
        return "scattered" if sum("token" in other for other in varying) > 1 and "token" in own else "mixed"


def meaning_of(chain: Chain, num_heads: int | None = None, num_tokens: int | None = None) -> Meaning:
    """Find out what the numbers of a chain mean, from the shapes that the code gave them.

    Args:
        chain: one or several sources; several are heads (or other parts) to be joined.
        num_heads: how many heads the width of the source holds, where it is known.
        num_tokens: how many tokens there are, where it is known; it tells (token, head) from (head, token).

    Returns:
        Meaning.
    """
    total = sum(source.numbers.numel() for source in chain.sources)
    coordinates = torch.zeros(4, total, dtype=torch.long)
    for part, source in enumerate(chain.sources):
        parts = len(chain.sources)
        told_by = _told_by(chain, num_tokens) if parts == 1 else source
        axes = _by_head(told_by, num_tokens) if told_by.numbers.dim() > 3 else None
        if axes is None:
            axes = _in_width(source, chain.stages, num_heads, part if parts > 1 else None)
            told_by = source
        known = told_by.numbers.flatten()
        for row, axis in enumerate(axes):
            coordinates[row, known[known >= 0]] = axis.flatten()[known >= 0]
    return Meaning(*coordinates, num_heads=int(coordinates[2].max()) + 1 if total else 1)


def _told_by(chain: Chain, num_tokens: int | None) -> Stage:
    """The tensor whose shape tells what the numbers are: the source, or where tokens and heads first lie apart.

    A source (batch, kv head, folded queries, head_dim) tells nothing until it is unfolded.
    """
    source = chain.sources[0]
    if source.numbers.dim() > 3 and num_tokens is not None and num_tokens not in source.shape[-3:-1]:
        for stage in chain.stages:
            if stage.numbers.dim() > 3 and num_tokens in stage.shape[-3:-1]:
                return stage
    return source


def _axes(shape: tuple[int, ...]) -> list[Tensor]:
    """For each axis, a tensor of that shape that holds each element's index along it."""
    return list(torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij"))


def _by_head(stage: Stage, num_tokens: int | None) -> tuple[Tensor, ...]:
    """Coordinates in (batch, head, token, head_dim), or (batch, token, head, head_dim) if the token count says so."""
    axes = _axes(stage.shape)
    token_first = num_tokens == stage.shape[-3] != stage.shape[-2]
    token, head = (axes[-3], axes[-2]) if token_first else (axes[-2], axes[-3])
    return axes[0], token, head, axes[-1]


def _in_width(source: Stage, stages: tuple[Stage, ...], num_heads: int | None, part: int | None) -> tuple[Tensor, ...]:
    """Coordinates in (batch, token, width), where the width may hold several heads."""
    shape = (1,) * (3 - len(source.shape)) + source.shape
    sample, token, column = (axis.reshape(source.shape) for axis in _axes(shape))
    if part is not None:  # the parts of a `cat` or `stack`: one a head
        return sample, token, torch.full_like(sample, part), column
    first = stages[0].shape
    if len(source.shape) == 3 and len(first) == 4 and first[2:] == source.shape[1:] and first[0] != source.shape[0]:
        return sample // first[1], token, sample % first[1], column  # (batch * head, token, head_dim)
    head_dim, heads = _split(source, stages, num_heads)
    head = column // head_dim % heads
    return sample, token, head, column % head_dim


def _split(source: Stage, stages: tuple[Stage, ...], num_heads: int | None) -> tuple[int, int]:
    """The width of a head and the number of heads in a source's last axis."""
    width = max(source.shape[-1], 1) if source.shape else 1
    if num_heads is not None and width % num_heads == 0:
        return width // num_heads, num_heads
    before = len(source.shape) - 1  # axes before the width
    for stage in stages:
        head_dim = stage.shape[-1] if stage.shape else 1
        if len(stage.shape) <= len(source.shape) or head_dim >= width or width % max(head_dim, 1):
            continue
        between = stage.shape[before:-1]
        if stage.shape[:before] == source.shape[:before]:  # the width was split, as it should be
            asked = getattr(stage.step.call.module, "num_heads", None) if stage.step else None
            return head_dim, asked if asked in between else between[-1]
        return head_dim, width // head_dim  # something else was split: the wrong view
    return width, 1
