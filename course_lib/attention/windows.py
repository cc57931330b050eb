"""Sliding windows: each query attends to the last few keys only, and, with attention sinks, to the first few."""

from __future__ import annotations

import torch
from torch import Tensor

from .checks import check_at_least, check_positive


def window_keep(
    query_len: int,
    key_len: int | None,
    window: int,
    *,
    num_sinks: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Each query may attend to its own position, to the `window - 1` before it, and to the first `num_sinks` tokens.

        position   = q + key_len - query_len
        keep[q, k] = k <= position  and  (k > position - window  or  k < num_sinks)

    The window counts the query's own token, as `sliding_window` does in `transformers` (Mistral, Gemma 3, gpt-oss):
    window=1 leaves a token nothing but itself, and a window of key_len or more is the causal mask. The last query is
    aligned with the last key, as in `causal_keep`. A key that is one window away is out of reach of one layer, but not
    of several: information moves up to window - 1 tokens per layer.

    Args:
        query_len: number of queries.
        key_len: number of keys; as many as queries if None.
        window: number of keys that a query may attend to, itself included, without the sinks.
        num_sinks: number of first tokens that every later query may attend to, the attention sinks.
        device: device of the mask.

    Returns:
        (query, key), bool, True = may attend.

    Raises:
        ValueError: a length or a num_sinks below 0, a window below 1.
        TypeError: a size that is not an integer.

    Source: Beltagy et al., "Longformer: The Long-Document Transformer", 2020, section 3.1; the sinks: Xiao et al.,
    "Efficient Streaming Language Models with Attention Sinks", 2023, section 3.2.

    Example:
        >>> window_keep(4, 4, 2, num_sinks=1)
        tensor([[ True, False, False, False],
                [ True,  True, False, False],
                [ True,  True,  True, False],
                [ True, False,  True,  True]])
    """
    key_len = query_len if key_len is None else key_len
    check_at_least(0, query_len=query_len, key_len=key_len, num_sinks=num_sinks)
    check_positive(window=window)
    key = torch.arange(key_len, device=device)
    position = torch.arange(query_len, device=device)[:, None] + key_len - query_len  # (query, 1)
    in_reach = (key > position - window) | (key < num_sinks)
    return in_reach & (key <= position)
