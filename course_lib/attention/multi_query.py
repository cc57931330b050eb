"""Multi-query attention: every head has its own queries, and all heads share one head of keys and values."""

from __future__ import annotations

from torch import Tensor, nn

from .base import Attention
from .cache import Cache
from .checks import check_positive, check_widths


class MultiQueryAttention(Attention):
    """Multi-head attention with one head of keys and values.

        queries = x W_Q, split into num_heads blocks of columns;  keys, values = x W_K, x W_V, one head wide
        head_i = softmax(queries_i keys^T / sqrt(head_dim), masked) values
        output = concat(head_0, ..., head_{h-1}) W_O

    `k_proj` and `v_proj` are num_heads times narrower than in `MultiHeadAttention`, and so is a cache of keys and
    values. The one head of keys and values is never copied for the query heads.

    Args:
        d_in: width of an input token.
        d_out: width of an output token.
        num_heads: number of query heads.
        causal: whether each token attends only to itself and to earlier ones.
        dropout: probability in [0, 1) of dropping an attention weight, in training only.
        bias: whether the projections have a bias.
        out_proj: whether the merged heads are projected by W_O; if not, `out_proj` is None and d_v must be d_out.
        d_qk: width of the queries over all heads; the keys are d_qk // num_heads wide; d_out if None.
        d_v: width of the merged heads; the values are d_v // num_heads wide; d_out if None.
        kernel: "explicit" runs `attend`, "fused" runs `attend_fused`, which returns no attention weights.

    Raises:
        ValueError: a size below 1, a width that num_heads does not divide, out_proj=False with d_v != d_out,
            dropout outside [0, 1), an unknown kernel.
        TypeError: a size that is not an integer.

    Source: Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019, section 2.4.

    Example:
        >>> module = MultiQueryAttention(3, 4, num_heads=2)
        >>> module.k_proj.weight.shape
        torch.Size([2, 3])
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
        self.num_heads = num_heads
        self.num_kv_heads = 1
        self.head_dim = d_qk // num_heads  # of queries and keys
        self.value_dim = d_v // num_heads
        self.q_proj = nn.Linear(d_in, d_qk, bias=bias)
        self.k_proj = nn.Linear(d_in, self.head_dim, bias=bias)
        self.v_proj = nn.Linear(d_in, self.value_dim, bias=bias)
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
        """Split the queries into heads, attend with all of them to one set of keys and values, merge.

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

        queries = self.q_proj(x).view(batch, num_tokens, self.num_heads, self.head_dim)  # (b, t, m) -> (b, t, h, d)
        queries_by_head = queries.transpose(1, 2)  # (b, t, h, d) -> (b, h, t, d)
        keys = self.k_proj(source)[:, None]  # (b, t, m) -> (b, t, d) -> (b, 1, t, d)
        values = self.v_proj(source)[:, None]
        if cache is not None:
            keys, values = cache.append(keys, values)  # (b, 1, new, d) -> (b, 1, k, d)

        context_by_head, weights = self.run_kernel(queries_by_head, keys, values, keep)  # (b, h, t, d), (b, h, q, k)

        context_by_token = context_by_head.transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
        output = context_by_token.reshape(batch, num_tokens, self.num_heads * self.value_dim)  # -> (b, t, h * d)
        if self.out_proj is not None:
            output = self.out_proj(output)  # (b, t, h * d) -> (b, t, d_out)
        return (output, weights) if return_weights else output
