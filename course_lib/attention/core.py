"""The one formula of the course, twice: `attend` shows every step, `attend_fused` calls PyTorch's fused kernel."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .checks import check_dropout, check_heads, check_keep

CPU_KERNEL_SHARES = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 9)  # before, `enable_gqa` copied there


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None = None, dropout_p: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention, step by step.

        scores  = (queries * head_dim ** -0.5) @ keys^T       (batch, head, query, key)
        weights = softmax(scores where keep, over the keys)   (batch, head, query, key), each row sums to 1
        context = weights @ values                            (batch, head, query, value width)

    Queries are scaled before the product, so that float16 does not overflow. A query that may attend to nothing
    gets weights and context of zero, and finite gradients.

    Keys and values may have fewer heads than the queries (1, or a divisor): consecutive query heads then share one,
    and it is not copied for each of them. The heads that share are folded into the query axis instead.

    Args:
        queries: (batch, head, query, head_dim), floating point.
        keys: (batch, kv head, key, head_dim); the number of heads is divisible by the number of kv heads.
        values: (batch, kv head, key, value width).
        keep: bool, True = may attend, any shape that broadcasts to (batch, head, query, key); None keeps all.
        dropout_p: probability in [0, 1) with which each weight is dropped; 0.0 drops nothing.

    Returns:
        context (batch, head, query, value width) and weights (batch, head, query, key), the weights as they were
        applied: after dropout.

    Raises:
        ValueError: sizes that don't fit each other, a mask that does not broadcast, dropout_p outside [0, 1).
        TypeError: tensors that aren't floating point or differ in dtype, a mask that isn't bool.

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.

    Example:
        >>> q, k, v = torch.randn(3, 2, 4, 5, 8).unbind()
        >>> context, weights = attend(q, k, v)
        >>> context.shape, weights.shape
        (torch.Size([2, 4, 5, 8]), torch.Size([2, 4, 5, 5]))
    """
    check_heads(queries, keys, values)
    check_dropout(dropout_p, "dropout_p")
    batch, num_heads, query_len, head_dim = queries.shape
    num_kv_heads, key_len = keys.shape[1:3]
    folded_len = num_heads // num_kv_heads * query_len  # the queries of all heads that share one kv head

    queries_folded = (queries * head_dim**-0.5).reshape(batch, num_kv_heads, folded_len, head_dim)  # bhqd -> bg(hq)d
    scores_folded = queries_folded @ keys.transpose(2, 3)  # bg(hq)d @ bgdk -> bg(hq)k
    scores = scores_folded.view(batch, num_heads, query_len, key_len)  # bg(hq)k -> bhqk
    if keep is None:
        weights = scores.softmax(dim=-1)
    else:
        hidden = ~check_keep(keep, scores.shape, scores.device)
        # The lowest finite number, not -inf: a row with nothing to see stays finite, forward and backward.
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
        weights = weights.masked_fill(hidden, 0.0)
    weights = F.dropout(weights, dropout_p, training=dropout_p > 0.0)

    weights_folded = weights.view(batch, num_kv_heads, folded_len, key_len)  # bhqk -> bg(hq)k
    context_folded = weights_folded @ values  # bg(hq)k @ bgkd -> bg(hq)d
    context = context_folded.view(batch, num_heads, query_len, values.shape[-1])  # bg(hq)d -> bhqd
    return context, weights


def attend_fused(
    queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None = None, dropout_p: float = 0.0
) -> Tensor:
    """The same as `attend` through `torch.nn.functional.scaled_dot_product_attention`, which never shows weights.

    Shared heads go through `enable_gqa` where PyTorch's kernel then copies no keys or values: on the CPU, from
    PyTorch 2.9 on, with equal widths and without dropout. Elsewhere, and for one query a head (a decoding step),
    which it makes faster, they are folded as in `attend`.

    Args:
        queries: (batch, head, query, head_dim), floating point.
        keys: (batch, kv head, key, head_dim).
        values: (batch, kv head, key, value width).
        keep: bool, True = may attend, any shape that broadcasts to (batch, head, query, key); None keeps all.
        dropout_p: probability in [0, 1) with which each weight is dropped.

    Returns:
        context (batch, head, query, value width).

    Raises:
        ValueError, TypeError: as `attend`.
    """
    check_heads(queries, keys, values)
    check_dropout(dropout_p, "dropout_p")
    batch, num_heads, query_len, head_dim = queries.shape
    num_kv_heads, key_len = keys.shape[1:3]
    shared = num_heads != num_kv_heads
    if keep is not None:
        keep = check_keep(keep, (batch, num_heads, query_len, key_len), queries.device)
        keep = keep[(None,) * (4 - keep.dim())].expand(-1, -1, query_len, key_len)
    in_fast_kernel = queries.device.type == "cpu" and head_dim == values.shape[-1] and dropout_p == 0.0
    if not shared or (query_len > 1 and CPU_KERNEL_SHARES and in_fast_kernel):
        return F.scaled_dot_product_attention(queries, keys, values, keep, dropout_p, enable_gqa=shared)

    folded_len = num_heads // num_kv_heads * query_len  # the queries of all heads that share one kv head
    if keep is not None and (keep.shape[1] > 1 or query_len > 1):  # one row serves all of them as it is
        keep = keep.expand(-1, num_heads, -1, -1).reshape(keep.shape[0], num_kv_heads, folded_len, key_len)
    queries_folded = queries.reshape(batch, num_kv_heads, folded_len, head_dim)  # bhqd -> bg(hq)d
    context_folded = F.scaled_dot_product_attention(queries_folded, keys, values, keep, dropout_p)
    return context_folded.reshape(batch, num_heads, query_len, values.shape[-1])  # bg(hq)d -> bhqd
