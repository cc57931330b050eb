"""Multi-head attention with one projection for all heads, which is reshaped and transposed into heads."""

from __future__ import annotations

from torch import Tensor, nn

from .base import Attention
from .cache import Cache
from .checks import check_positive, check_widths


class MultiHeadAttention(Attention):
    """The same as the wrapper of heads, with all heads in one matrix: split, attend in parallel, merge.

        queries, keys, values = x W_Q, x W_K, x W_V, each split into num_heads blocks of columns
        head_i = softmax(queries_i keys_i^T / sqrt(head_dim), masked) values_i
        output = concat(head_0, ..., head_{h-1}) W_O

    W_Q, W_K, W_V and W_O are `q_proj`, `k_proj`, `v_proj` and `out_proj`.

    Args:
        d_in: width of an input token.
        d_out: width of an output token.
        num_heads: number of heads.
        causal: whether each token attends only to itself and to earlier ones.
        dropout: probability in [0, 1) of dropping an attention weight, in training only.
        bias: whether the projections have a bias.
        out_proj: whether the merged heads are projected by W_O; if not, `out_proj` is None and d_v must be d_out.
        d_qk: width of queries and keys over all heads; d_out if None.
        d_v: width of values over all heads; d_out if None.
        kernel: "explicit" runs `attend`, "fused" runs `attend_fused`, which returns no attention weights.

    Raises:
        ValueError: a size below 1, a width that num_heads does not divide, out_proj=False with d_v != d_out,
            dropout outside [0, 1), an unknown kernel.
        TypeError: a size that is not an integer.

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2.

    Example:
        >>> module = MultiHeadAttention(3, 4, num_heads=2)
        >>> module(torch.randn(1, 6, 3)).shape
        torch.Size([1, 6, 4])
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        num_heads: int,
        *,
        causal: bool = True,
        dropout: float = 0.0,
        bias: bool = False,
        out_proj: bool = True,
        d_qk: int | None = None,
        d_v: int | None = None,
        kernel: str = "explicit",
    ) -> None:
        super().__init__(causal=causal, dropout=dropout, kernel=kernel)
        check_positive(d_in=d_in, d_out=d_out, num_heads=num_heads)
        d_qk, d_v = check_widths(d_out, num_heads, d_qk, d_v, out_proj)
        self.num_heads = self.num_kv_heads = num_heads
        self.head_dim = d_qk // num_heads  # of queries and keys
        self.value_dim = d_v // num_heads
        self.q_proj = nn.Linear(d_in, d_qk, bias=bias)
        self.k_proj = nn.Linear(d_in, d_qk, bias=bias)
        self.v_proj = nn.Linear(d_in, d_v, bias=bias)
        self.out_proj = nn.Linear(d_v, d_out, bias=bias) if out_proj else None

    def forward(
        self,
        x: Tensor,
        *,
        keep: Tensor | None = None,
        context: Tensor | None = None,
        cache: Cache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Split into heads, attend in each, merge.

        Args:
            x: (batch, token, d_in).
            keep: bool, True = may attend, broadcasts to (batch, head, query, key); combined with
                the causal mask by `&`.
            context: (batch, key, d_in), what keys and values are computed from (cross-attention, causal=False only);
                x itself if None.
            cache: keys and values of the tokens before x; those of x are appended, and x attends to all of them.
            return_weights: whether to return the attention weights too; the explicit kernel only.

        Returns:
            output (batch, token, d_out), or (output, weights) with attention weights (batch, head, query, key).

        Raises:
            ValueError, TypeError: x, keep, context or cache does not fit; the message says why, and nothing is written
                to the cache.
        """
        source = self.prepare(x, self.num_heads, keep, return_weights, context, cache)
        batch, num_tokens, _ = x.shape
        key_len = source.shape[1]

        queries = self.q_proj(x).view(batch, num_tokens, self.num_heads, self.head_dim)  # (b, t, m) -> (b, t, h, d)
        keys = self.k_proj(source).view(batch, key_len, self.num_heads, self.head_dim)
        values = self.v_proj(source).view(batch, key_len, self.num_heads, self.value_dim)

        queries_by_head = queries.transpose(1, 2)  # (b, t, h, d) -> (b, h, t, d)
        keys_by_head = keys.transpose(1, 2)
        values_by_head = values.transpose(1, 2)
        if cache is not None:
            keys_by_head, values_by_head = cache.append(keys_by_head, values_by_head)  # (b, h, new, d) -> (b, h, k, d)

        context_by_head, weights = self.run_kernel(queries_by_head, keys_by_head, values_by_head, keep)  # (b, h, t, d)

        context_by_token = context_by_head.transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
        output = context_by_token.reshape(batch, num_tokens, self.num_heads * self.value_dim)  # -> (b, t, h * d)
        if self.out_proj is not None:
            output = self.out_proj(output)  # (b, t, h * d) -> (b, t, d_out)
        return (output, weights) if return_weights else output
