"""Rotary positions: queries and keys are rotated by angles proportional to their positions."""

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
    """The cosine and the sine of every angle of rotation, for positions 0 to num_positions - 1.

        angle[p, i] = p * rope_theta ** (-2 i / head_dim)    for i = 0 ... head_dim / 2 - 1

    Pair 0 rotates by one radian per token, and each later pair rotates by less.

    Args:
        num_positions: number of positions in the table.
        head_dim: width of a query or key, even: half of it is the number of pairs.
        rope_theta: base of the angles; the larger it is, the less the later pairs rotate per token.
        device: device of the table.

    Returns:
        cos and sin, (position, head_dim / 2), float32 as in Llama.

    Raises:
        ValueError: a size below 1, an odd head_dim, a rope_theta that is not above 0.
        TypeError: a size that is not an integer, a rope_theta that is not a number.

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


def rows_at_positions(
    cos: Tensor, sin: Tensor, batch: int, num_tokens: int, positions: Tensor | None, start: int
) -> tuple[Tensor, Tensor]:
    """The rows of a module's table (position, pair) at the positions of its tokens: start, start + 1, ... if None.

    Returns:
        cos and sin, (token, pair) or, for positions (batch, token), (batch, token, pair).

    Raises:
        ValueError: positions of a different shape or device, or that are not in the table.
        TypeError: positions that are not a tensor of integers.
    """
    if positions is None:
        _check_in_table(start + num_tokens - 1, len(cos))
        return cos[start : start + num_tokens], sin[start : start + num_tokens]
    if not isinstance(positions, Tensor) or positions.dtype not in (torch.int64, torch.int32):
        kind = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
        raise TypeError(f"positions must be a tensor of integers (torch.int64), got {kind}.")
    if tuple(positions.shape) not in ((num_tokens,), (batch, num_tokens)):
        raise ValueError(
            f"positions must be (token,) = ({num_tokens},) or (batch, token) = ({batch}, {num_tokens}), got the shape "
            f"{tuple(positions.shape)}."
        )
    if positions.device != cos.device:
        raise ValueError(
            f"positions are on {positions.device}, but the module is on {cos.device}: call "
            f"positions.to({str(cos.device)!r})."
        )
    if positions.numel() and not positions.is_meta and not torch.compiler.is_compiling():
        if positions.min() < 0:
            raise ValueError(
                f"positions must be at least 0, got {int(positions.min())}: padding may have any position, such as 0."
            )
        _check_in_table(int(positions.max()), len(cos))
    return cos[positions], sin[positions]


def _check_in_table(last: int, max_positions: int) -> None:
    if last >= max_positions:
        raise ValueError(
            f"position {last} is beyond the table of max_positions={max_positions}: build the module with "
            f"max_positions={last + 1} or more."
        )


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x[i], x[i + head_dim / 2]) of every token by its angle.

        rotated[i]                = x[i] cos[i] - x[i + head_dim / 2] sin[i]
        rotated[i + head_dim / 2] = x[i + head_dim / 2] cos[i] + x[i] sin[i]

    Norms are preserved. The dot product of a rotated query at position p and a rotated key at position q depends on the
    positions through p - q only. Values are not rotated. Each element is paired with the one at the same index in
    the other half of the head, as in `transformers`. Meta's own files pair adjacent elements (x[2 i], x[2 i + 1]), so
    the rows of their q_proj and k_proj are in a different order.

    Args:
        x: queries or keys, (batch, head, token, head_dim).
        cos, sin: (token, head_dim / 2), or (batch, token, head_dim / 2) if each sample has its own
            positions: the rows of `rotary_table` at the tokens' positions.

    Returns:
        (batch, head, token, head_dim), in the dtype of x.

    Raises:
        ValueError: an x that is not (batch, head, token, head_dim), an odd head_dim, cos and sin that do not fit x.
        TypeError: an x, cos or sin that is not a floating-point tensor.

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
                f"{name} is on {tensor.device}, but x is on {x.device}: call rotary_table with "
                f"device={str(x.device)!r}."
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
        cos, sin = cos[:, None], sin[:, None]  # (b, t, pair) -> (b, 1, t, pair): the same for all heads
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    first, second = x.chunk(2, dim=-1)  # (b, h, t, d) -> (b, h, t, d / 2), twice
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)  # -> (b, h, t, d)
