"""Rotary positions: queries and keys are turned by an angle that grows with their place, so scores see distances."""

from __future__ import annotations

from numbers import Real

import torch
from torch import Tensor

from .checks import check_even, check_positive


def rotary_table(
    num_positions: int,
    head_dim: int,
    *,
    rope_theta: float = 10000.0,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """The cosine and the sine of every angle that positions 0 to num_positions - 1 are turned by.

        angle[p, i] = p * rope_theta ** (-2 i / head_dim)    for i = 0 ... head_dim / 2 - 1

    Pair 0 turns by one radian a token, each later pair more slowly.

    Args:
        num_positions: positions in the table.
        head_dim: width of a query or key, even: half of it is the number of pairs.
        rope_theta: the larger, the slower the later pairs turn.
        device: where the table is put.

    Returns:
        cos and sin, (position, head_dim / 2), float32 as in Llama.

    Raises:
        ValueError: a size below 1, an odd head_dim, a rope_theta that isn't above 0.
        TypeError: a size that is no whole number, a rope_theta that is no number.

    Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021, section 3.2.

    Example:
        >>> cos, sin = rotary_table(3, 4)
        >>> cos.shape
        torch.Size([3, 2])
    """
    check_positive(num_positions=num_positions, head_dim=head_dim)
    check_even(head_dim)
    if isinstance(rope_theta, bool) or not isinstance(rope_theta, Real):
        raise TypeError(f"rope_theta must be a number, got {rope_theta!r} ({type(rope_theta).__name__}).")
    if not rope_theta > 0:
        raise ValueError(f"rope_theta must be above 0, got {rope_theta}: Llama 2 uses 10000.0.")
    speed = 1.0 / rope_theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim)  # (pair,)
    position = torch.arange(num_positions, dtype=torch.float32, device=device)
    angle = position[:, None] * speed  # (position, 1) -> (position, pair)
    return angle.cos(), angle.sin()


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + head_dim / 2]) of every token by its angle.

        turned[i]                = x[i] cos[i] - x[i + head_dim / 2] sin[i]
        turned[i + head_dim / 2] = x[i + head_dim / 2] cos[i] + x[i] sin[i]

    Lengths stay. A query at position p and a key at position q, both turned, have a dot product that depends on
    p - q only. Values are not turned. The pairs are the halves of a head, as in `transformers`; Meta's own files pair
    neighbours (x[2 i], x[2 i + 1]), so their q_proj and k_proj have other rows.

    Args:
        x: queries or keys, (batch, head, token, head_dim).
        cos, sin: (token, head_dim / 2), or (batch, token, head_dim / 2) where samples have positions of their own:
            rows of `rotary_table`, one for each token's position.

    Returns:
        (batch, head, token, head_dim), in the dtype of x.

    Raises:
        ValueError: an x that is not (batch, head, token, head_dim), or cos and sin that do not fit it.
        TypeError: an x, cos or sin that is no floating-point tensor.

    Source: Su et al., 2021, section 3.4.2.

    Example:
        >>> queries = torch.randn(1, 2, 3, 4)
        >>> cos, sin = rotary_table(3, 4)
        >>> apply_rotary(queries, cos, sin).norm() / queries.norm()
        tensor(1.)
    """
    for name, tensor in (("x", x), ("cos", cos), ("sin", sin)):
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TypeError(f"{name} must be a floating-point tensor, got {kind}.")
        if tensor.device != x.device:
            raise ValueError(
                f"{name} is on {tensor.device}, but x is on {x.device}: give rotary_table device={str(x.device)!r}."
            )
    if x.dim() != 4:
        raise ValueError(
            f"x must be (batch, head, token, head_dim), got the shape {tuple(x.shape)}: split the heads first with "
            "view and transpose(1, 2)."
        )
    batch, _, num_tokens, head_dim = x.shape
    check_even(head_dim)
    by_token, by_sample = (num_tokens, head_dim // 2), (batch, num_tokens, head_dim // 2)
    if cos.shape != sin.shape or tuple(cos.shape) not in (by_token, by_sample):
        raise ValueError(
            f"cos and sin must both be (token, head_dim / 2) = {by_token} or (batch, token, head_dim / 2) = "
            f"{by_sample} for x of shape {tuple(x.shape)}, got {tuple(cos.shape)} and {tuple(sin.shape)}: take the "
            "rows of rotary_table at the tokens' positions."
        )
    if cos.dim() == 3:
        cos, sin = cos[:, None], sin[:, None]  # (b, t, pair) -> (b, 1, t, pair): one for all heads
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    first, second = x.chunk(2, dim=-1)  # (b, h, t, d) -> (b, h, t, d / 2): each of both
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)  # -> (b, h, t, d)
