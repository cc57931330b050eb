"""The formula of attention, twice: `attend` computes it step by step, `attend_fused` calls PyTorch's fused kernel."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .checks import check_dropout, check_heads, check_keep
from .masks import causal_keep
from .sinks import softmax_with_sink
from .soft_cap import check_cap, soft_cap

# Before PyTorch 2.9, `enable_gqa` copied keys and values on the CPU.
CPU_KERNEL_HAS_GQA = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 9)


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    keep: Tensor | None = None,
    dropout_p: float = 0.0,
    *,
    causal: bool = False,
    softmax_dtype: torch.dtype | None = None,
    sink_logits: Tensor | None = None,
    softcap: float = torch.inf,
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention, step by step.

        scores  = (queries * head_dim ** -0.5) @ keys^T       (batch, head, query, key)
        weights = softmax(scores where keep, over the keys)   (batch, head, query, key), each row sums to 1
        context = weights @ values                            (batch, head, query, value width)

    Queries are scaled before the product, so that float16 does not overflow. A query that may attend to nothing
    gets attention weights and a context of zero, and finite gradients.

    Keys and values may have fewer heads than the queries (1, or a divisor): consecutive query heads then share a kv
    head, without a copy of it for each. Instead, the query heads that share are folded into the query axis.

    Args:
        queries: (batch, head, query, head_dim), floating point.
        keys: (batch, kv head, key, head_dim); the number of heads is divisible by the number of kv heads.
        values: (batch, kv head, key, value width).
        keep: bool, True = may attend, any shape that broadcasts to (batch, head, query, key); None keeps all.
        dropout_p: probability in [0, 1) of dropping each attention weight; 0.0 drops none.
        causal: whether later tokens are hidden, as by `causal_keep(query_len, key_len)`, combined with keep by `&`.
        softmax_dtype: the dtype that softmax runs in, such as float32 in Llama; that of the scores if None. The
            attention weights are returned in the dtype of the scores.
        sink_logits: (head,), a learned attention sink: one more logit in each row's softmax, dropped afterwards, so
            that a row sums to less than 1, see `softmax_with_sink`; None has no sink.
        softcap: the limit that no score exceeds, see `soft_cap`; infinity has none.

    Returns:
        context (batch, head, query, value width) and attention weights (batch, head, query, key), as they were applied:
        after dropout.

    Raises:
        ValueError: sizes that do not fit each other, a mask that does not broadcast, dropout_p outside [0, 1),
            sink_logits that are not (head,), a softcap that is not above 0.
        TypeError: tensors that are not floating point or differ in dtype, a mask that is not bool.

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.

    Example:
        >>> q, k, v = torch.randn(3, 2, 4, 5, 8).unbind()
        >>> context, weights = attend(q, k, v)
        >>> context.shape, weights.shape
        (torch.Size([2, 4, 5, 8]), torch.Size([2, 4, 5, 5]))
    """
    check_heads(queries, keys, values)
    check_dropout(dropout_p, "dropout_p")
    check_cap(softcap, "softcap")
    batch, num_heads, query_len, head_dim = queries.shape
    num_kv_heads, key_len = keys.shape[1:3]
    if keep is not None:
        check_keep(keep, (batch, num_heads, query_len, key_len), queries.device)
    folded_len = num_heads // num_kv_heads * query_len  # f: the queries of all heads that share one kv head

    queries_folded = (queries * head_dim**-0.5).reshape(batch, num_kv_heads, folded_len, head_dim)  # -> (b, g, f, d)
    scores_folded = queries_folded @ keys.transpose(2, 3)  # (b, g, f, d) @ (b, g, d, k) -> (b, g, f, k)
    if softcap < torch.inf:
        scores_folded = soft_cap(scores_folded, softcap)
    scores = scores_folded.view(batch, num_heads, query_len, key_len)  # (b, g, f, k) -> (b, h, q, k)
    rows_may_be_empty = keep is not None or query_len > key_len
    if causal and query_len > 1:  # a single query is the last token, which attends to everything
        earlier = causal_keep(query_len, key_len, device=scores.device)  # (q, k)
        keep = earlier if keep is None else earlier & keep
    masked_scores = scores
    if keep is not None:
        # In a row without any key to attend to, -inf would give nan, forward and backward. There the lowest finite
        # value takes its place, and the attention weights are set to zero after softmax.
        lowest = -torch.inf
        if rows_may_be_empty:
            lowest = max(torch.finfo(dtype).min for dtype in (scores.dtype, softmax_dtype or scores.dtype))
        masked_scores = torch.where(keep, scores, lowest)  # masked_fill takes twice as long on a CPU
    if sink_logits is None:
        weights = masked_scores.softmax(dim=-1, dtype=softmax_dtype)
    else:
        weights = softmax_with_sink(masked_scores, sink_logits, softmax_dtype)
    if keep is not None and rows_may_be_empty:
        weights = torch.where(keep, weights, 0.0)
    if softmax_dtype is not None:
        weights = weights.to(scores.dtype)
    weights = F.dropout(weights, dropout_p, training=dropout_p > 0.0)

    weights_folded = weights.reshape(batch, num_kv_heads, folded_len, key_len)  # (b, h, q, k) -> (b, g, f, k)
    context_folded = weights_folded @ values  # (b, g, f, k) @ (b, g, k, d) -> (b, g, f, d)
    context = context_folded.view(batch, num_heads, query_len, values.shape[-1])  # (b, g, f, d) -> (b, h, q, d)
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
    """The same as `attend` by `torch.nn.functional.scaled_dot_product_attention`, which returns no attention weights.

    Keys and values are never copied for the heads that share them. Shared heads use `enable_gqa` where PyTorch's kernel
    then copies nothing: on the CPU from PyTorch 2.9 on, with equal widths and without dropout; on CUDA where it can run
    its flash kernel. Elsewhere, and for one query per head (a decoding step), where it is faster, they are folded into
    the query axis as in `attend`.

    Args:
        queries: (batch, head, query, head_dim), floating point.
        keys: (batch, kv head, key, head_dim).
        values: (batch, kv head, key, value width).
        keep: bool, True = may attend, any shape that broadcasts to (batch, head, query, key); None keeps all.
        dropout_p: probability in [0, 1) of dropping each attention weight.
        causal: whether later tokens are hidden, as by `causal_keep(query_len, key_len)`, combined with keep by `&`. No
            mask is built if PyTorch's kernel can hide later tokens itself, which is faster.

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
    if causal and query_len > 1:  # a single query is the last token, which attends to everything
        # PyTorch's causal mask is aligned top-left: the same only if there are as many queries as keys.
        if keep is None and query_len == key_len:
            is_causal = True
        else:
            earlier = causal_keep(query_len, key_len, device=queries.device)[None, None]  # (1, 1, q, k)
            keep = earlier if keep is None else earlier & keep
    if not shared or (query_len > 1 and _kernel_shares(queries, keys, values, keep, dropout_p, is_causal)):
        return F.scaled_dot_product_attention(queries, keys, values, keep, dropout_p, is_causal, enable_gqa=shared)

    if is_causal:  # there are more folded queries than keys, so PyTorch's top-left alignment does not fit them
        keep = causal_keep(query_len, key_len, device=queries.device)[None, None]
    folded_len = num_heads // num_kv_heads * query_len  # f: the queries of all heads that share one kv head
    if keep is not None and (keep.shape[1] > 1 or query_len > 1):  # a single row already broadcasts to all of them
        keep = keep.expand(-1, num_heads, -1, -1).reshape(keep.shape[0], num_kv_heads, folded_len, key_len)
    queries_folded = queries.reshape(batch, num_kv_heads, folded_len, head_dim)  # (b, h, q, d) -> (b, g, f, d)
    context_folded = F.scaled_dot_product_attention(queries_folded, keys, values, keep, dropout_p)
    return context_folded.reshape(batch, num_heads, query_len, values.shape[-1])  # (b, g, f, d) -> (b, h, q, d)


def _kernel_shares(
    queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None, dropout_p: float, is_causal: bool
) -> bool:
    """Whether `enable_gqa` reaches a kernel that reads shared heads in place, instead of copying them."""
    if queries.device.type == "cpu":
        return CPU_KERNEL_HAS_GQA and queries.shape[-1] == values.shape[-1] and dropout_p == 0.0
    if queries.device.type == "cuda":
        if torch.compiler.is_compiling():  # PyTorch can't be asked then; these are the conditions of its flash kernel
            is_half = queries.dtype in (torch.float16, torch.bfloat16)
            return is_half and keep is None and queries.shape[-1] == values.shape[-1]
        arguments = torch.backends.cuda.SDPAParams(queries, keys, values, keep, dropout_p, is_causal, True)
        return torch.backends.cuda.can_use_flash_attention(arguments)
    return False
