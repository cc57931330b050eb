"""Grouped-query attention: each group of query heads shares a head of keys and values; MHA and MQA are its extremes."""

from __future__ import annotations

from torch import Tensor, nn

from .base import Attention
from .cache import Cache
from .checks import check_divisible, check_positive, check_widths


class GroupedQueryAttention(Attention):
    """Multi-head attention with num_kv_heads heads of keys and values.

        queries = x W_Q, split into num_heads blocks;  keys, values = x W_K, x W_V, split into num_kv_heads blocks
        head_i = softmax(queries_i keys_g^T / sqrt(head_dim), masked) values_g,  g = i // (num_heads // num_kv_heads)
        output = concat(head_0, ..., head_{h-1}) W_O

    With num_kv_heads = num_heads it is `MultiHeadAttention`, with num_kv_heads = 1 `MultiQueryAttention`.

    Args:
        d_in: width of an input token.
        d_out: width of an output token.
        num_heads: number of query heads.
        num_kv_heads: number of heads of keys and values; divides num_heads.
        causal: whether each token attends only to itself and to earlier ones.
        dropout: probability in [0, 1) of dropping an attention weight, in training only.
        bias: whether the projections have a bias.
        out_proj: whether the merged heads are projected by W_O; if not, `out_proj` is None and d_v must be d_out.
        d_qk: width of the queries over all heads; a key head is d_qk // num_heads wide; d_out if None.
        d_v: width of the merged heads; a value head is d_v // num_heads wide; d_out if None.
        kernel: "explicit" runs `attend`, "fused" runs `attend_fused`, which returns no attention weights.

    Raises:
        ValueError: a size below 1, a width that num_heads does not divide, num_kv_heads that does not divide num_heads,
            out_proj=False with d_v != d_out, dropout outside [0, 1), an unknown kernel.
        TypeError: a size that is not an integer.

    Source: Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints",
    2023, section 2.2.

    Example:
        >>> module = GroupedQueryAttention(3, 8, num_heads=4, num_kv_heads=2)
        >>> module.k_proj.weight.shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        num_heads: int,
        num_kv_heads: int,
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
        check_positive(d_in=d_in, d_out=d_out, num_heads=num_heads, num_kv_heads=num_kv_heads)
        check_divisible(
            "num_heads", num_heads, "num_kv_heads", num_kv_heads, remedy=", or a num_kv_heads that divides it"
        )
        d_qk, d_v = check_widths(d_out, num_heads, d_qk, d_v, out_proj)
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = d_qk // num_heads  # of queries and keys
        self.value_dim = d_v // num_heads
        self.q_proj = nn.Linear(d_in, d_qk, bias=bias)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.value_dim, bias=bias)
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
        """Split queries into num_heads, keys and values into num_kv_heads, attend, merge.

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
        keys = self.k_proj(source).view(batch, key_len, self.num_kv_heads, self.head_dim)  # (b, t, m) -> (b, t, g, d)
        values = self.v_proj(source).view(batch, key_len, self.num_kv_heads, self.value_dim)

        queries_by_head = queries.transpose(1, 2)  # (b, t, h, d) -> (b, h, t, d)
        keys_by_head = keys.transpose(1, 2)  # (b, t, g, d) -> (b, g, t, d)
        values_by_head = values.transpose(1, 2)
        if cache is not None:
            keys_by_head, values_by_head = cache.append(keys_by_head, values_by_head)  # (b, g, new, d) -> (b, g, k, d)

        context_by_head, weights = self.run_kernel(queries_by_head, keys_by_head, values_by_head, keep)  # (b, h, t, d)

        context_by_token = context_by_head.transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
        output = context_by_token.reshape(batch, num_tokens, self.num_heads * self.value_dim)  # -> (b, t, h * d)
        if self.out_proj is not None:
            output = self.out_proj(output)  # (b, t, h * d) -> (b, t, d_out)
        return (output, weights) if return_weights else output
