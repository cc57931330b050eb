"""Right attention as a record of steps, each of which can be replaced by a wrong one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Sizes(Protocol):
    """The sizes that steps depend on."""

    @property
    def d_in(self) -> int: ...
    @property
    def d_out(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...


class Projections(NamedTuple):
    """What a module's parameters make of x.

    Attributes:
        roles: Queries (b, t, h * d), keys and values (b, t, kv * d).
        out_proj: W^O, (h * d, d_out), to be multiplied from the right, or None.
    """

    roles: tuple[Tensor, ...]
    out_proj: Tensor | None


@dataclass(frozen=True)
class Attention:
    """The steps of attention after the projections.

    Attributes:
        roles: Which projections are used as queries, keys and values.
        split: (b, t, heads * d), number of heads -> (b, h, t, d).
        share: (b, kv, t, d), heads per kv head -> (b, h, t, d).
        scale: Sizes, number of tokens -> what the scores are multiplied by.
        weigh: Scores, keep -> attention weights.
        apply: Weights, values -> context (b, h, t, d).
        merge: (b, h, t, d) -> (b, t, h * d).
        project: Merged, W^O or None -> the output.
    """

    split: Callable[[Tensor, int], Tensor]
    share: Callable[[Tensor, int], Tensor]
    scale: Callable[[Sizes, int], float]
    weigh: Callable[[Tensor, Tensor], Tensor]
    apply: Callable[[Tensor, Tensor], Tensor]
    merge: Callable[[Tensor], Tensor]
    project: Callable[[Tensor, Tensor | None], Tensor]
    roles: tuple[int, int, int] = (0, 1, 2)

    def output(self, projected: Projections, sizes: Sizes, causal: bool) -> Tensor:
        """Compute the output, (b, t, d_out).

        Raises:
            RuntimeError, IndexError: If the steps are impossible for these sizes.
        """
        heads = [sizes.num_heads if role == 0 else sizes.num_kv_heads for role in range(3)]
        queries, keys, values = (self.split(projected.roles[role], heads[role]) for role in self.roles)
        group = sizes.num_heads // sizes.num_kv_heads
        keys, values = self.share(keys, group), self.share(values, group)
        num_tokens = queries.shape[2]
        keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril(0 if causal else num_tokens)
        weights = self.weigh(queries @ keys.mT * self.scale(sizes, num_tokens), keep)
        return self.project(self.merge(self.apply(weights, values)), projected.out_proj)


def masked(scores: Tensor, keep: Tensor, dim: int = -1, fill: float = -torch.inf) -> Tensor:
    """Softmax of scores whose hidden elements were replaced."""
    return scores.masked_fill(~keep, fill).softmax(dim)


RIGHT = Attention(
    split=lambda x, heads: x.unflatten(2, (heads, -1)).transpose(1, 2),
    share=lambda x, group: x.repeat_interleave(group, 1),
    scale=lambda sizes, _: sizes.head_dim**-0.5,
    weigh=masked,
    apply=torch.matmul,
    merge=lambda context: context.transpose(1, 2).flatten(2),
    project=lambda merged, out_proj: merged if out_proj is None else merged @ out_proj,
)
