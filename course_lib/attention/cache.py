"""What the caches share: what a module needs of one, and the checks of what is appended."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Cache:
    """What a module needs of a cache, wherever that keeps its tokens; the checks that all caches share.

    Attributes:
        batch: number of samples.
        length: number of tokens appended so far, and so the position of the next one.
        window: the number of tokens that a rolling cache keeps; None in the others, which keep all.
        num_sinks: the number of first tokens that it keeps besides.
    """

    built_by = "KVCache(batch, num_kv_heads, max_len, head_dim)"  # for the messages
    batch: int
    length: int
    window: int | None = None
    num_sinks: int = 0
    _keys: Tensor  # (any, kv head, any, head_dim)
    _values: Tensor  # (any, kv head, any, value_dim)

    @property
    def nbytes(self) -> int:
        """Bytes of its memory, filled or not."""
        return self._keys.nbytes + self._values.nbytes

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens, and return those that the new tokens may need."""
        raise NotImplementedError

    def key_positions(self, new: int) -> Sequence[int]:
        """The positions of the keys that `append` returns for `new` more tokens, in their order.

        A mask for the whole sequence becomes the mask for a call with the cache by `keep[..., cache.key_positions(n)]`.
        """
        return range(self.length + new)

    def key_len(self, new: int) -> int:
        """The number of keys that `append` returns for `new` more tokens."""
        return self.length + new

    def check_room(self, new: int) -> None:
        """Refuse more tokens than there is room for."""
        raise NotImplementedError

    def check_new(self, keys: Tensor, values: Tensor) -> None:
        """Refuse keys and values that can't be appended, before anything is written."""
        for name, tensor in (("keys", keys), ("values", values)):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}.")
            if tensor.dim() != 4:
                raise ValueError(
                    f"{name} must be (batch, kv head, new token, width), got the shape {tuple(tensor.shape)}."
                )
        check_cache(self, tuple(keys.shape), values.shape[3])
        if values.shape[:3] != keys.shape[:3]:
            raise ValueError(
                f"keys {tuple(keys.shape)} and values {tuple(values.shape)} must agree in batch, heads and tokens "
                "(axes 0 to 2): there is one value for each key."
            )
        builder = self.built_by.partition("(")[0]
        for name, tensor, expected in (("keys", keys, self._keys), ("values", values, self._values)):
            if tensor.dtype != expected.dtype:
                raise TypeError(
                    f"{name} are {tensor.dtype}, but the cache holds {expected.dtype}: build {builder} with "
                    f"dtype={tensor.dtype}."
                )
            if tensor.device != expected.device:
                raise ValueError(
                    f"{name} are on {tensor.device}, but the cache is on {expected.device}: build {builder} with "
                    f"device={str(tensor.device)!r}."
                )
            if tensor.requires_grad and torch.is_grad_enabled():
                raise ValueError(
                    f"{name} carry gradients, which a cache can't keep: call the module under torch.no_grad()."
                )


def allocate(
    groups: int,
    num_kv_heads: int,
    num_slots: int,
    head_dim: int,
    value_dim: int,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
) -> tuple[Tensor, Tensor]:
    """Zeros for keys and values, (group, kv head, slot, width): a group is a sample, or a block of a paged cache."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point dtype such as torch.float32, got {dtype!r}.")
    with torch.inference_mode(False):  # a tensor made in inference mode can't be changed outside of it
        keys = torch.zeros(groups, num_kv_heads, num_slots, head_dim, dtype=dtype, device=device)
        values = torch.zeros(groups, num_kv_heads, num_slots, value_dim, dtype=dtype, device=device)
    return keys, values


def check_cache(cache: Cache, shape: tuple[int, ...], value_dim: int) -> None:
    """Refuse a cache to which keys of this shape, (batch, kv head, new token, head_dim), can't be appended."""
    if not isinstance(cache, Cache):
        raise TypeError(f"cache must be a KVCache, got {type(cache).__name__}.")
    _, cache_heads, _, cache_dim = cache._keys.shape
    batch, num_kv_heads, new, head_dim = shape
    if batch != cache.batch:
        raise ValueError(
            f"the new keys have batch={batch}, but the cache was built with batch={cache.batch}: a cache belongs to "
            f"one batch, so build a new {type(cache).__name__} for a different batch."
        )
    for name, theirs, expected in (
        ("num_kv_heads", num_kv_heads, cache_heads),
        ("head_dim", head_dim, cache_dim),
        ("value_dim", value_dim, cache._values.shape[3]),
    ):
        if theirs != expected:
            raise ValueError(
                f"the new keys and values have {name}={theirs}, but the cache was built with {name}={expected}: build "
                f"{cache.built_by} with {name}={theirs}."
            )
    cache.check_room(new)


def check_window(cache: Cache, window: int | None, num_sinks: int) -> None:
    """Refuse a cache that drops tokens which the module attends to, or which keeps others."""
    if cache.window is not None and (cache.window, cache.num_sinks) != (window, num_sinks):
        raise ValueError(
            f"the cache keeps window={cache.window} and num_sinks={cache.num_sinks}, but the module attends to "
            f"window={window} and num_sinks={num_sinks}: build both with the same, or use a KVCache, which keeps all."
        )
