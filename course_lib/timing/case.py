"""Ways to compute the same result that are timed side by side, and their inputs."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Case(NamedTuple):
    """One way to compute the result.

    Attributes:
        name: the label of its row in a table.
        run: computes the result.
        leaves: the tensors that gradients are taken with respect to, where the backward pass is measured. Flattened and
            concatenated, their gradients must be equal in all cases: a wrapper lists the query weights of all heads,
            then their key weights, and so on.
        bytes, flops: the least that any implementation must move and compute in the forward pass; None if no limit is
            to be shown.
        cache_bytes: size of the keys and values that are in the cache beforehand, or None.
        required_bytes: the least memory that it needs; a machine with less memory leaves the case out.
    """

    name: str
    run: Callable[[], Tensor]
    leaves: tuple[Tensor, ...] = ()
    bytes: int | None = None
    flops: int | None = None
    cache_bytes: int | None = None
    required_bytes: int = 0


def random_tensors(device: str, dtype: str, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Return random tensors with the same values on every device, because they are drawn on the CPU in float32.

    Args:
        device: "cpu" or "cuda".
        dtype: name of a dtype, such as "float32".
        shapes: one per tensor.

    Returns:
        One tensor per shape.
    """
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(device, getattr(torch, dtype)) for shape in shapes]


def broadcast_attention(queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None = None) -> Tensor:
    """Compute multi-query attention by broadcasting, in which `matmul` copies the one kv head for every query head.

    Args:
        queries: (batch, head, query, head_dim).
        keys, values: (batch, 1, key, head_dim).
        keep: bool, True = may attend, or None.

    Returns:
        (batch, head, query, head_dim).
    """
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(2, 3)  # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    return scores.softmax(dim=-1) @ values
