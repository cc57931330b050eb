"""What all forms of attention do alike: check the input, join the masks, run the formula. Projections are theirs."""

from __future__ import annotations

from torch import Tensor, nn

from .checks import check_dropout, check_input, check_keep
from .core import attend, attend_fused
from .masks import causal_keep


class Attention(nn.Module):
    """The common part of every form; a form adds its projections and its `forward`.

    Args:
        causal: each token sees only itself and earlier ones.
        dropout: probability in [0, 1) of dropping a weight, in training only.
        kernel: "explicit" runs `attend`, which shows the weights; "fused" runs PyTorch's own kernel.

    Raises:
        ValueError: dropout outside [0, 1), or a kernel of another name.
        TypeError: causal that is no bool, or dropout that is no number.
    """

    def __init__(self, *, causal: bool, dropout: float, kernel: str = "explicit") -> None:
        super().__init__()
        if not isinstance(causal, bool):
            raise TypeError(f"causal must be True or False, got {causal!r}.")
        check_dropout(dropout)
        if kernel not in ("explicit", "fused"):
            raise ValueError(f"kernel must be 'explicit' or 'fused', got {kernel!r}.")
        self.causal = causal
        self.dropout = dropout
        self.kernel = kernel

    def prepare(self, x: Tensor, num_heads: int, keep: Tensor | None, return_weights: bool) -> Tensor | None:
        """Check what `forward` was given, before anything is computed, and join keep with the causal mask.

        Args:
            x: (batch, token, d_in).
            num_heads: number of heads, for the shape that keep must broadcast to.
            keep: bool, True = may attend, or None.
            return_weights: whether the weights are asked for.

        Returns:
            bool that broadcasts to (batch, head, query, key), or None where everything may be seen.
        """
        check_input(x, self.q_proj)
        if return_weights and self.kernel == "fused":
            raise ValueError("return_weights=True needs kernel='explicit': the fused kernel never forms the weights.")
        batch, num_tokens, _ = x.shape
        if keep is not None:
            check_keep(keep, (batch, num_heads, num_tokens, num_tokens), x.device)
        if not self.causal:
            return keep
        causal = causal_keep(num_tokens, device=x.device)  # (query, key)
        return causal if keep is None else causal & keep

    def run_kernel(
        self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Run the formula with the kernel that was chosen; the fused one gives no weights."""
        dropout_p = self.dropout if self.training else 0.0
        if self.kernel == "fused":
            return attend_fused(queries, keys, values, keep, dropout_p), None
        return attend(queries, keys, values, keep, dropout_p)

    def extra_repr(self) -> str:
        """The options that no projection shows."""
        return f"causal={self.causal}, dropout={self.dropout}"
