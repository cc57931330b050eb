"""Keep masks: bool, True = may attend; combined with `&`, and inverted for PyTorch's module by `to_torch_mask`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .checks import check_at_least, check_positive


def causal_keep(query_len: int, key_len: int | None = None, *, device: torch.device | str | None = None) -> Tensor:
    """Each query may attend to its own position and to earlier ones.

        keep[q, k] = k <= q + key_len - query_len

    The last query is aligned with the last key (bottom-right alignment): with a cache, a single query attends to all
    keys.

    Args:
        query_len: number of queries.
        key_len: number of keys; as many as queries if None.
        device: device of the mask; pass x.device, so that a module on a GPU gets its mask there.

    Returns:
        (query, key), bool, True = may attend.

    Raises:
        ValueError, TypeError: a length that is not an integer of at least 0.

    Example:
        >>> causal_keep(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    key_len = query_len if key_len is None else key_len
    check_at_least(0, query_len=query_len, key_len=key_len)
    keep = torch.ones(query_len, key_len, dtype=torch.bool, device=device)
    return keep.tril(diagonal=key_len - query_len)


def padding_keep(
    lengths: Sequence[int] | Tensor,
    num_tokens: int | None = None,
    *,
    side: str = "right",
    device: torch.device | str | None = None,
) -> Tensor:
    """Hide the padding of a batch whose samples differ in length: no query of any head may attend to it.

        side="right": keep[b, 0, 0, k] = k < lengths[b]
        side="left":  keep[b, 0, 0, k] = k >= num_tokens - lengths[b]

    Args:
        lengths: number of real tokens of each sample, (batch,): a list or an integer tensor.
        num_tokens: number of tokens per sample, with padding; the longest length if None.
        side: "right" or "left", the side of the padding.
        device: device of the mask; if None and lengths is a tensor, the device of lengths.

    Returns:
        (batch, 1, 1, key), bool, True = may attend.

    Raises:
        ValueError: a side that is not "right" or "left", a length below 0 or above num_tokens, lengths not (batch,).
        TypeError: lengths that are not integers.

    Example:
        >>> padding_keep([3, 1])[:, 0, 0]
        tensor([[ True,  True,  True],
                [ True, False, False]])
    """
    if side not in ("right", "left"):
        raise ValueError(f"side must be 'right' or 'left', got {side!r}.")
    lengths = torch.as_tensor(lengths, device=device)
    if lengths.dim() != 1 or lengths.numel() == 0:
        raise ValueError(f"lengths must be (batch,), one integer per sample, got the shape {tuple(lengths.shape)}.")
    if lengths.dtype == torch.bool or lengths.is_floating_point() or lengths.is_complex():
        raise TypeError(
            f"lengths must be integers, got {lengths.dtype}: from a 0/1 mask of real tokens they are mask.sum(-1)."
        )
    if num_tokens is None and lengths.is_meta:
        raise ValueError("lengths on the meta device hold no values: pass num_tokens.")
    lengths = lengths.long()  # num_tokens - lengths would wrap around in uint8
    if num_tokens is None:
        num_tokens = max(int(lengths.max()), 1)
    check_positive(num_tokens=num_tokens)
    if not lengths.is_meta and not 0 <= int(lengths.min()) <= int(lengths.max()) <= num_tokens:
        raise ValueError(f"lengths must lie between 0 and num_tokens={num_tokens}, got {lengths.tolist()}.")
    positions = torch.arange(num_tokens, device=lengths.device)  # (key,)
    lengths = lengths[:, None]  # (batch, 1)
    keep = positions < lengths if side == "right" else positions >= num_tokens - lengths
    return keep[:, None, None]  # (batch, key) -> (batch, 1, 1, key)


def to_torch_mask(keep: Tensor, *, num_heads: int | None = None) -> Tensor:
    """Convert a keep mask to the convention of `torch.nn.MultiheadAttention`, where True means hidden.

        keep                             becomes                     pass it as
        -------------------------------  --------------------------  ----------------
        (query, key)                     (query, key)                attn_mask
        (batch, 1, 1, key)               (batch, key)                key_padding_mask
        (1, 1, query, key)               (query, key)                attn_mask
        (batch, head or 1, query, key)   (batch * head, query, key)  attn_mask

    Args:
        keep: bool, True = may attend, in one of the shapes above.
        num_heads: number of heads; needed for (batch, 1, query, key), in which one mask serves all heads of a sample.

    Returns:
        bool, True = hidden.

    Raises:
        TypeError: a keep that is not bool.
        ValueError: keep has a different shape, or num_heads is missing or contradicts it.

    Example:
        >>> to_torch_mask(causal_keep(2))
        tensor([[False,  True],
                [False, False]])
    """
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
        kind = keep.dtype if isinstance(keep, Tensor) else type(keep).__name__
        raise TypeError(f"keep must be a bool tensor with True = may attend, got {kind}.")
    if keep.dim() not in (2, 4):
        raise ValueError(
            f"keep must be (query, key) or (batch, head, query, key), got the shape {tuple(keep.shape)}: add the "
            "missing axes with None, as in keep[:, None]."
        )
    if num_heads is not None:
        check_positive(num_heads=num_heads)
    hidden = ~keep
    if hidden.dim() == 2:
        return hidden
    batch, heads, query_len, key_len = hidden.shape
    if heads == query_len == 1:
        return hidden[:, 0, 0]  # (batch, key)
    if batch == heads == 1:
        return hidden[0, 0]  # (query, key)
    if heads == 1 and num_heads is None:
        raise ValueError(f"keep of shape {tuple(keep.shape)} serves all heads of a sample: pass num_heads.")
    if num_heads is not None and heads not in (1, num_heads):
        raise ValueError(f"keep of shape {tuple(keep.shape)} has {heads} heads, but num_heads={num_heads}.")
    by_head = hidden.expand(-1, num_heads or heads, -1, -1)
    return by_head.reshape(-1, query_len, key_len)  # (b, h, q, k) -> (b * h, q, k)
