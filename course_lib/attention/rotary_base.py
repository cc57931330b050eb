"""What the forms with rotary positions share: the table of angles, which stays float32."""

from __future__ import annotations

from torch import Tensor

from .base import Attention
from .rotary import rotary_table


class RotaryAttention(Attention):
    """Causal attention with a table of rotary angles: the buffers `cos` and `sin`, (position, pair).

    Args:
        rotary_dim: width of what is rotated, even.
        rope_theta: the larger, the more slowly the rotary angles grow.
        max_positions: rows of the table, for positions 0 to max_positions - 1.
        kernel: "explicit" or "fused".

    Raises:
        ValueError, TypeError: as `rotary_table`, or an unknown kernel.
    """

    width_name = "d_model"
    cos: Tensor
    sin: Tensor

    def __init__(self, rotary_dim: int, rope_theta: float, max_positions: int, kernel: str) -> None:
        super().__init__(causal=True, dropout=0.0, kernel=kernel)
        cos, sin = rotary_table(max_positions, rotary_dim, rope_theta=rope_theta)
        self.rotary_dim = rotary_dim
        self.rope_theta = rope_theta
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def _apply(self, fn, recurse: bool = True):
        """What `to`, `half` and `cuda` call: the table moves too but stays float32, as rounding can't be undone."""
        super()._apply(fn, recurse)
        cos, sin = rotary_table(len(self.cos), self.rotary_dim, rope_theta=self.rope_theta, device="cpu")
        self.cos, self.sin = cos.to(self.cos.device), sin.to(self.cos.device)
        return self
