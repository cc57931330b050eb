"""What all forms of attention do alike: check the input, hide later tokens, run the formula. Projections are theirs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .checks import check_context, check_dropout, check_input, check_keep
from .core import attend, attend_fused
from .kv_cache import KVCache, check_cache


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

    softmax_dtype: torch.dtype | None = None  # the explicit kernel's; Llama's is float32
    width_name = "d_in"  # what the constructor calls the width of x

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

    def prepare(
        self,
        x: Tensor,
        num_heads: int,
        keep: Tensor | None,
        return_weights: bool,
        context: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Check what `forward` was given, before anything is computed or written.

        Args:
            x: (batch, token, d_in).
            num_heads: number of heads, for the shape that keep must broadcast to.
            keep: bool, True = may attend, or None.
            return_weights: whether the weights are asked for.
            context: (batch, key, d_in) that keys and values are made from; x itself if None.
            cache: where keys and values are kept from call to call, or None.

        Returns:
            What keys and values are made from: context, or x.
        """
        check_input(x, self.q_proj, width_name=self.width_name)
        if context is not None:
            check_context(context, x, self.k_proj, self.causal, cache)
        if return_weights and self.kernel == "fused":
            raise ValueError("return_weights=True needs kernel='explicit': the fused kernel never forms the weights.")
        source = x if context is None else context
        batch, query_len, key_len = x.shape[0], x.shape[1], source.shape[1]
        if cache is not None:
            num_kv_heads = self.k_proj.out_features // self.head_dim
            check_cache(cache, (batch, num_kv_heads, key_len, self.head_dim), self.value_dim)
            key_len += cache.length
        if keep is not None:
            check_keep(keep, (batch, num_heads, query_len, key_len), x.device)
        return source

    def run_kernel(
        self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Run the formula with the kernel that was chosen, causal or not; the fused one gives no weights."""
        dropout_p = self.dropout if self.training else 0.0
        if self.kernel == "fused":
            return attend_fused(queries, keys, values, keep, dropout_p, causal=self.causal), None
        return attend(queries, keys, values, keep, dropout_p, causal=self.causal, softmax_dtype=self.softmax_dtype)

    def extra_repr(self) -> str:
        """The options that no projection shows."""
        return f"causal={self.causal}, dropout={self.dropout}"
