"""The one formula of the course, twice: `attend` shows every step, `attend_fused` calls PyTorch's fused kernel."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .checks import check_dropout, check_heads, check_keep
from .masks import causal_keep

CPU_KERNEL_SHARES = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 9)  # before, `enable_gqa` copied there


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    keep: Tensor | None = None,
    dropout_p: float = 0.0,
    *,
    causal: bool = False,
    softmax_dtype: torch.dtype | None = None,
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
        causal: whether later tokens are hidden, as by `causal_keep(query_len, key_len)`, and-ed with keep.
        softmax_dtype: the dtype that softmax runs in, such as Llama's float32; that of the scores if None. The weights
            come back in that of the scores.

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
    if keep is not None:
        check_keep(keep, (batch, num_heads, query_len, key_len), queries.device)
    folded_len = num_heads // num_kv_heads * query_len  # the queries of all heads that share one kv head

    queries_folded = (queries * head_dim**-0.5).reshape(batch, num_kv_heads, folded_len, head_dim)  # bhqd -> bg(hq)d
    scores_folded = queries_folded @ keys.transpose(2, 3)  # bg(hq)d @ bgdk -> bg(hq)k
    scores = scores_folded.view(batch, num_heads, query_len, key_len)  # bg(hq)k -> bhqk
    rows_may_be_empty = keep is not None or query_len > key_len
    if causal and query_len > 1:  # one query is the last token: it sees everything
        earlier = causal_keep(query_len, key_len, device=scores.device)  # (query, key)
        keep = earlier if keep is None else earlier & keep
    masked_scores = scores
    if keep is not None:
        # -inf hides for sure. Of a row with nothing to see it would make nan, forward and backward: the lowest finite
        # number, and a second look at the weights, make zeros.
        lowest = -torch.inf
        if rows_may_be_empty:
            lowest = max(torch.finfo(dtype).min for dtype in (scores.dtype, softmax_dtype or scores.dtype))
        masked_scores = torch.where(keep, scores, lowest)  # masked_fill takes twice as long on a CPU
    weights = masked_scores.softmax(dim=-1, dtype=softmax_dtype)
    if keep is not None and rows_may_be_empty:
        weights = torch.where(keep, weights, 0.0)
    if softmax_dtype is not None:
        weights = weights.to(scores.dtype)
    weights = F.dropout(weights, dropout_p, training=dropout_p > 0.0)

    weights_folded = weights.reshape(batch, num_kv_heads, folded_len, key_len)  # bhqk -> bg(hq)k
    context_folded = weights_folded @ values  # bg(hq)k @ bgkd -> bg(hq)d
    context = context_folded.view(batch, num_heads, query_len, values.shape[-1])  # bg(hq)d -> bhqd
    return context, weights


def attend_fused(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    keep: Tensor | None = None,
    dropout_p: float = 0.0,
    *,
    causal: bool = False,
) -> Tensor:
    """The same as `attend` through `torch.nn.functional.scaled_dot_product_attention`, which never shows weights.

    Keys and values are never copied for the heads that share them. These go through `enable_gqa` where PyTorch's
    kernel then copies nothing: on the CPU from PyTorch 2.9 on, with equal widths and without dropout; on CUDA where it
    can run its flash kernel. Elsewhere, and for one query a head (a decoding step), which it makes faster, they are
    folded into the query axis as in `attend`.

    Args:
        queries: (batch, head, query, head_dim), floating point.
        keys: (batch, kv head, key, head_dim).
        values: (batch, kv head, key, value width).
        keep: bool, True = may attend, any shape that broadcasts to (batch, head, query, key); None keeps all.
        dropout_p: probability in [0, 1) with which each weight is dropped.
        causal: whether later tokens are hidden, as by `causal_keep(query_len, key_len)`, and-ed with keep; where
            PyTorch's kernel can do that by itself, no mask is made, which is faster.

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
    is_causal = False
    if causal and query_len > 1:  # one query is the last token: it sees everything
        # PyTorch's own causal mask sits in the top left corner: the same only where there are as many queries as keys.
        if keep is None and query_len == key_len:
            is_causal = True
        else:
            earlier = causal_keep(query_len, key_len, device=queries.device)[None, None]  # (1, 1, q, k)
            keep = earlier if keep is None else earlier & keep
    if not shared or (query_len > 1 and _kernel_shares(queries, keys, values, keep, dropout_p, is_causal)):
        return F.scaled_dot_product_attention(queries, keys, values, keep, dropout_p, is_causal, enable_gqa=shared)

    if is_causal:  # folded queries are longer than the keys: that corner is not theirs
        keep = causal_keep(query_len, key_len, device=queries.device)[None, None]
    folded_len = num_heads // num_kv_heads * query_len  # the queries of all heads that share one kv head
    if keep is not None and (keep.shape[1] > 1 or query_len > 1):  # one row serves all of them as it is
        keep = keep.expand(-1, num_heads, -1, -1).reshape(keep.shape[0], num_kv_heads, folded_len, key_len)
    queries_folded = queries.reshape(batch, num_kv_heads, folded_len, head_dim)  # bhqd -> bg(hq)d
    context_folded = F.scaled_dot_product_attention(queries_folded, keys, values, keep, dropout_p)
    return context_folded.reshape(batch, num_heads, query_len, values.shape[-1])  # bg(hq)d -> bhqd


def _kernel_shares(
    queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None, dropout_p: float, is_causal: bool
) -> bool:
    """Whether `enable_gqa` reaches a kernel that reads shared heads where they are, instead of copying them."""
    if queries.device.type == "cpu":
        return CPU_KERNEL_SHARES and queries.shape[-1] == values.shape[-1] and dropout_p == 0.0
    if queries.device.type == "cuda":
        if torch.compiler.is_compiling():  # then PyTorch can't be asked: this is what its flash kernel needs
            is_half = queries.dtype in (torch.float16, torch.bfloat16)
            return is_half and keep is None and queries.shape[-1] == values.shape[-1]
        arguments = torch.backends.cuda.SDPAParams(queries, keys, values, keep, dropout_p, is_causal, True)
        return torch.backends.cuda.can_use_flash_attention(arguments)
    return False
