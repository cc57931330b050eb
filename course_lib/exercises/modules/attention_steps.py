"""The steps of attention, each of which may be replaced by a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .layouts import Projections
from .sizes import Sizes


@dataclass(frozen=True)
class Attention:
    """The steps of attention after the projections, each of which may be replaced by a wrong one.

    Attributes:
        split: (b, t, heads * d), number of heads -> (b, h, t, d).
        share: (b, kv, t, d), heads per kv head -> (b, h, t, d).
        scale: sizes, number of tokens -> what the scores are multiplied by.
        weigh: scores, keep -> attention weights.
        merge: (b, h, t, d) -> (b, t, h * d).
        project: merged, W^O or None -> the output.
        roles: which projections are used as queries, keys and values.
    """

    split: Callable[[Tensor, int], Tensor]
    share: Callable[[Tensor, int], Tensor]
    scale: Callable[[Sizes, int], float]
    weigh: Callable[[Tensor, Tensor], Tensor]
    merge: Callable[[Tensor], Tensor]
    project: Callable[[Tensor, Tensor | None], Tensor]
    roles: tuple[int, int, int] = (0, 1, 2)

    def output(self, projected: Projections, sizes: Sizes, causal: bool) -> Tensor:
        """Compute the output, (b, t, d_out); errors of PyTorch say that the mistake is impossible for these sizes."""
        heads = [sizes.num_heads if role == 0 else sizes.num_kv_heads for role in range(3)]
        queries, keys, values = (self.split(projected.roles[role], heads[role]) for role in self.roles)
        group = sizes.num_heads // sizes.num_kv_heads
        keys, values = self.share(keys, group), self.share(values, group)
        num_tokens = queries.shape[2]
        keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril(0 if causal else num_tokens)
        weights = self.weigh(queries @ keys.mT * self.scale(sizes, num_tokens), keep)
        return self.project(self.merge(weights @ values), projected.out_proj)


def masked(scores: Tensor, keep: Tensor) -> Tensor:
    return scores.masked_fill(~keep, -torch.inf).softmax(-1)


def times_output(merged: Tensor, out_proj: Tensor | None) -> Tensor:
    return merged if out_proj is None else merged @ out_proj


RIGHT = Attention(
    split=lambda x, heads: x.unflatten(2, (heads, -1)).transpose(1, 2),
    share=lambda x, group: x.repeat_interleave(group, 1),
    scale=lambda sizes, _: sizes.head_dim**-0.5,
    weigh=masked,
    merge=lambda context: context.transpose(1, 2).flatten(2),
    project=times_output,
)


@dataclass(frozen=True)
class KnownMistake:
    """One known mistake: what the result equals, its ids in the catalogue, and a question or None for the catalogue's.

    Several ids have the same effect; a diagnosis of the code tells which it is.
    """

    equals: str
    attention: Attention
    mistakes: tuple[str, ...] = ()
    hint: str | None = None
