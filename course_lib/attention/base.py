"""What all forms of attention share: they check the input and run the formula. Each has its own projections."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .cache import Cache, check_cache, check_window
from .checks import check_context, check_dropout, check_input, check_keep
from .core import attend, attend_fused


class Attention(nn.Module):
    """The part that all forms share; a form adds its projections and its `forward`.

    Args:
        causal: whether each token attends only to itself and to earlier ones.
        dropout: probability in [0, 1) of dropping an attention weight, in training only.
        kernel: "explicit" runs `attend`, which returns the attention weights; "fused" runs PyTorch's own kernel.

    Raises:
        ValueError: dropout outside [0, 1), or an unknown kernel.
        TypeError: causal that is not a bool, or dropout that is not a number.
    """

    softmax_dtype: torch.dtype | None = None  # of the explicit kernel; float32 in Llama
    width_name = "d_in"  # the constructor's name for the width of x
    window: int | None = None  # of LlamaAttention, as is num_sinks
    num_sinks = 0
    softcap: float = torch.inf  # of LlamaAttention, too
    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    num_heads: int  # this and the rest: in all forms but SingleHeadAttention, which takes no cache
    num_kv_heads: int
    head_dim: int  # of queries and keys
    value_dim: int

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
        cache: Cache | None = None,
    ) -> Tensor:
        """Check the arguments of `forward`, before anything is computed or written.

        Returns:
            What keys and values are computed from: context, (batch, key, d_in), or x, (batch, token, d_in).

        Raises:
            ValueError, TypeError: an argument does not fit; the message says why.
        """
        check_input(x, self.q_proj, width_name=self.width_name)
        if context is not None:
            check_context(context, x, self.k_proj, self.causal, cache)
        if return_weights and self.kernel == "fused":
            raise ValueError("return_weights=True needs kernel='explicit': the fused kernel never forms the weights.")
        source = x if context is None else context
        batch, query_len, _ = x.shape
        key_len = query_len if context is None else context.shape[1]
        if cache is not None:
            num_kv_heads, head_dim, value_dim = self.cache_sizes
            check_cache(cache, (batch, num_kv_heads, key_len, head_dim), value_dim)
            check_window(cache, self.window, self.num_sinks)
            key_len = cache.key_len(key_len)
        if keep is not None:
            check_keep(keep, (batch, num_heads, query_len, key_len), x.device)
        return source

    @property
    def cache_sizes(self) -> tuple[int, int, int]:
        """What a cache must be built with: num_kv_heads, head_dim and value_dim."""
        return self.num_kv_heads, self.head_dim, self.value_dim

    def run_kernel(
        self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None, sink_logits: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Run the formula with the chosen kernel: context, and attention weights, or None from the fused kernel."""
        dropout_p = self.dropout if self.training else 0.0
        if self.kernel == "fused":
            return attend_fused(queries, keys, values, keep, dropout_p, causal=self.causal), None
        return attend(
            queries,
            keys,
            values,
            keep,
            dropout_p,
            causal=self.causal,
            softmax_dtype=self.softmax_dtype,
            sink_logits=sink_logits,
            softcap=self.softcap,
        )

    def extra_repr(self) -> str:
        """The options, for the module's repr."""
        return f"causal={self.causal}, dropout={self.dropout}"
