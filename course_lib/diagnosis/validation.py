"""Check the arguments of `diagnose`, with one sentence for each problem."""

from typing import Any

import torch
from torch import Tensor, nn


def check_arguments(code: Any, x: Any, causal: Any, num_heads: Any, num_kv_heads: Any, keep: Any, call: Any) -> None:
    """Refuse arguments that can't be examined, before any code runs.

    Raises:
        TypeError, ValueError: as `diagnose`.
    """
    if not callable(code):
        raise TypeError(f"module_or_function must be a module or a function, got {type(code).__name__}.")
    if not isinstance(x, Tensor) or not (x.is_floating_point() or takes_ids(code, x)):
        raise not_embeddings(x)
    if x.dim() not in ((2, 3) if x.is_floating_point() else (2,)) or x.numel() == 0:
        raise ValueError(f"x must be (batch, token, d_in) or (token, d_in), got the shape {tuple(x.shape)}.")
    if not isinstance(causal, bool):
        raise TypeError(f"causal must be True or False, got {causal!r}.")
    for name, number in (("num_heads", num_heads), ("num_kv_heads", num_kv_heads)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise ValueError(f"{name} must be an integer of at least 1, or None, got {number!r}.")
    if keep is not None:
        _check_keep(keep, x, num_heads)
    if call is not None and not callable(call):
        raise TypeError(f"call must be a function of (code, x), got {type(call).__name__}.")


def takes_ids(code: Any, x: Tensor) -> bool:
    """Return whether x may be token ids: integers, for a module that embeds some."""
    embeds = isinstance(code, nn.Module) and any(isinstance(module, nn.Embedding) for module in code.modules())
    return x.dtype in (torch.int64, torch.int32) and embeds


def not_embeddings(x: Any) -> TypeError:
    """Return the error for an x that is no tensor of embeddings."""
    kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
    return TypeError(f"x must be a floating-point tensor (batch, token, d_in), got {kind}: give it embeddings.")


def check_words(words: Any, x: Tensor) -> tuple[str, ...]:
    """Return the labels of the tokens as text, one per token; empty without words.

    Raises:
        ValueError: as `diagnose`.
    """
    if words is None:
        return ()
    num_tokens = x.shape[-2] if x.is_floating_point() else x.shape[-1]
    if isinstance(words, str) or len(words) != num_tokens:
        raise ValueError(f"words must be one label for each of the {num_tokens} tokens of x, got {words!r}.")
    return tuple(map(str, words))


def _check_keep(keep: Any, x: Tensor, num_heads: int | None) -> None:
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
        kind = keep.dtype if isinstance(keep, Tensor) else type(keep).__name__
        raise TypeError(f"keep must be a bool tensor, True = may attend, got {kind}.")
    if x.is_floating_point():
        batch, num_tokens = len(x) if x.dim() == 3 else 1, x.shape[-2]
    else:
        batch, num_tokens = x.shape
    heads = () if num_heads is None else (1, num_heads)
    wanted = ((1, batch), heads, (1, num_tokens), (1, num_tokens))[4 - keep.dim() :] if keep.dim() <= 4 else None
    fits = wanted is not None and all(not able or size in able for size, able in zip(keep.shape, wanted, strict=True))
    of_samples = keep.shape in ((batch, num_tokens), (batch, num_tokens, num_tokens))  # padding, or one mask per sample
    if not fits and not of_samples:
        raise ValueError(
            f"keep must broadcast to (batch, head, query, key) for {batch} samples of {num_tokens} tokens, got the "
            f"shape {tuple(keep.shape)}."
        )
