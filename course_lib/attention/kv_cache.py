"""Where a model that writes one word after the other keeps the keys and values of all words so far."""

from __future__ import annotations

import torch
from torch import Tensor

from .checks import check_at_least, check_positive


class KVCache:
    """Keys and values of the tokens so far, in memory that is taken once and filled in place.

    One layer's cache. `module(x, cache=cache)` appends the keys and values of x and attends to all that is in it, so
    each token's are computed once:

        cache = KVCache(batch, num_kv_heads, max_len, head_dim)
        with torch.no_grad():                # a cache keeps numbers, not their history
            module(prompt, cache=cache)      # (batch, token, d_in): fills the first tokens
            module(next_token, cache=cache)  # (batch, 1, d_in): appends one, attends to all

    It takes batch * num_kv_heads * max_len * (head_dim + value_dim) numbers, whether filled or not.

    Args:
        batch: number of samples.
        num_kv_heads: heads of keys and values: 1 for multi-query attention, num_heads for multi-head attention.
        max_len: tokens that it can hold.
        head_dim: width of a key.
        value_dim: width of a value; head_dim if None.
        dtype: of the numbers, that of the keys that will come; PyTorch's default floating dtype if None.
        device: where they are kept.

    Attributes:
        length: tokens in it.
        max_len: tokens it can hold.

    Raises:
        ValueError: a size below 1.
        TypeError: a size that is no whole number, a dtype that isn't floating point.

    Source: Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019, section 2.3.

    Example:
        >>> cache = KVCache(1, 2, 8, 4)
        >>> keys, values = cache.append(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4))
        >>> cache.length, keys.shape
        (3, torch.Size([1, 2, 3, 4]))
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        max_len: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        value_dim = head_dim if value_dim is None else value_dim
        check_positive(batch=batch, num_kv_heads=num_kv_heads, max_len=max_len, head_dim=head_dim, value_dim=value_dim)
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise TypeError(f"dtype must be a floating-point dtype such as torch.float32, got {dtype!r}.")
        with torch.inference_mode(False):  # a tensor born in inference mode could be filled nowhere else
            self._keys = torch.zeros(batch, num_kv_heads, max_len, head_dim, dtype=dtype, device=device)
            self._values = torch.zeros(batch, num_kv_heads, max_len, value_dim, dtype=dtype, device=device)
        self.max_len = max_len
        self.length = 0

    @property
    def keys(self) -> Tensor:
        """The keys so far, (batch, kv head, length, head_dim): a view, not a copy."""
        return self._keys[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """The values so far, (batch, kv head, length, value_dim): a view, not a copy."""
        return self._values[:, :, : self.length]

    @property
    def nbytes(self) -> int:
        """Bytes of memory it holds, filled or not."""
        return self._keys.nbytes + self._values.nbytes

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens behind those that are there.

        Args:
            keys: (batch, kv head, new token, head_dim).
            values: (batch, kv head, new token, value_dim).

        Returns:
            All keys and all values, (batch, kv head, length, ...): views, which the next `append` does not change.

        Raises:
            ValueError: a batch, heads or widths other than the cache's, more tokens than it has room for, another
                device, or keys that carry gradients. Nothing is written then.
            TypeError: no tensor, or another dtype. Nothing is written then.
        """
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
        for name, tensor, own in (("keys", keys, self._keys), ("values", values, self._values)):
            if tensor.dtype != own.dtype:
                raise TypeError(
                    f"{name} are {tensor.dtype}, but the cache holds {own.dtype}: build KVCache with "
                    f"dtype={tensor.dtype}."
                )
            if tensor.device != own.device:
                raise ValueError(
                    f"{name} are on {tensor.device}, but the cache is on {own.device}: build KVCache with "
                    f"device={str(tensor.device)!r}."
                )
            if tensor.requires_grad and torch.is_grad_enabled():
                raise ValueError(
                    f"{name} carry gradients, which a cache can't keep: call the module under torch.no_grad()."
                )
        end = self.length + keys.shape[2]
        self._keys[:, :, self.length : end] = keys
        self._values[:, :, self.length : end] = values
        self.length = end
        return self.keys, self.values

    def rewind(self, length: int = 0) -> None:
        """Forget all tokens but the first `length`; all of them, for a new prompt, if it is not given.

        What comes next is written over the rest, also in views that `append` gave before.

        Args:
            length: tokens to keep.

        Raises:
            ValueError: fewer than 0, or more than there are.
            TypeError: no whole number.
        """
        check_at_least(0, length=length)
        if length > self.length:
            raise ValueError(f"length={length} is more than the {self.length} tokens in the cache: it can't grow so.")
        self.length = length

    def __repr__(self) -> str:
        batch, num_kv_heads, _, head_dim = self._keys.shape
        return (
            f"KVCache({self.length} of {self.max_len} tokens, batch={batch}, num_kv_heads={num_kv_heads}, "
            f"head_dim={head_dim}, {self._keys.dtype}, {self.nbytes:,} bytes)"
        )


def check_cache(cache: KVCache, shape: tuple[int, ...], value_dim: int) -> None:
    """Refuse a cache that keys of this shape, (batch, kv head, new token, head_dim), can't be appended to."""
    if not isinstance(cache, KVCache):
        raise TypeError(f"cache must be a KVCache, got {type(cache).__name__}.")
    own_batch, own_heads, _, own_dim = cache._keys.shape
    batch, num_kv_heads, new, head_dim = shape
    if batch != own_batch:
        raise ValueError(
            f"the new keys have batch={batch}, but the cache was built with batch={own_batch}: a cache belongs to one "
            "batch, so build a new KVCache for another."
        )
    for name, theirs, its_own in (
        ("num_kv_heads", num_kv_heads, own_heads),
        ("head_dim", head_dim, own_dim),
        ("value_dim", value_dim, cache._values.shape[3]),
    ):
        if theirs != its_own:
            raise ValueError(
                f"the new keys and values have {name}={theirs}, but the cache was built with {name}={its_own}: build "
                f"KVCache(batch, num_kv_heads, max_len, head_dim) with {name}={theirs}."
            )
    if cache.length + new > cache.max_len:
        raise ValueError(
            f"the cache holds {cache.length} of max_len={cache.max_len} tokens and has no room for {new} more: build "
            f"it with max_len={cache.length + new} or more, or start anew with cache.rewind()."
        )
