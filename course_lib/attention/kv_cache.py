"""The key-value cache: a model that generates one token after the other keeps the keys and values of all tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from .cache import Cache, allocate
from .checks import check_at_least, check_positive


class KVCache(Cache):
    """Keys and values of the tokens so far, in memory that is allocated once and filled in place.

    The cache of one layer. `module(x, cache=cache)` appends the keys and values of x and attends to all keys in the
    cache, so that those of each token are computed once:

        cache = KVCache(batch, num_kv_heads, max_len, head_dim)
        with torch.no_grad():                # a cache stores values, not how they were computed
            module(prompt, cache=cache)      # (batch, token, d_in): fills the first tokens
            module(next_token, cache=cache)  # (batch, 1, d_in): appends one, attends to all

    It stores batch * num_kv_heads * max_len * (head_dim + value_dim) elements, whether filled or not.

    Args:
        batch: number of samples.
        num_kv_heads: heads of keys and values: 1 for multi-query attention, num_heads for multi-head attention.
        max_len: number of tokens that it can hold.
        head_dim: width of a key.
        value_dim: width of a value; head_dim if None.
        dtype: dtype of the keys and values to come; PyTorch's default floating-point dtype if None.
        device: device of the cache.

    Attributes:
        length: number of tokens in it.
        max_len: number of tokens that it can hold.

    Raises:
        ValueError: a size below 1.
        TypeError: a size that is not an integer, a dtype that is not floating point.

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
        self._keys, self._values = allocate(batch, num_kv_heads, max_len, head_dim, value_dim, dtype, device)
        self.batch = batch
        self.max_len = max_len
        self.length = 0

    @property
    def keys(self) -> Tensor:
        """The keys so far, (batch, kv head, length, head_dim), as a view, not a copy."""
        return self._keys[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """The values so far, (batch, kv head, length, value_dim), as a view, not a copy."""
        return self._values[:, :, : self.length]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens after those already stored.

        Args:
            keys: (batch, kv head, new token, head_dim).
            values: (batch, kv head, new token, value_dim).

        Returns:
            All keys and all values, (batch, kv head, length, ...), as views; the next `append` does not change them.

        Raises:
            ValueError: the batch size, number of heads, width or device differs from the cache's, there are more tokens
                than it has room for, or the keys require gradients. Nothing is written in that case.
            TypeError: keys or values are not a tensor, or their dtype differs. Nothing is written in that case.
        """
        self.check_new(keys, values)
        end = self.length + keys.shape[2]
        self._keys[:, :, self.length : end] = keys
        self._values[:, :, self.length : end] = values
        self.length = end
        return self.keys, self.values

    def check_room(self, new: int) -> None:
        """Refuse more tokens than there is room for."""
        if self.length + new > self.max_len:
            raise ValueError(
                f"the cache holds {self.length} of max_len={self.max_len} tokens and has no room for {new} more: build "
                f"it with max_len={self.length + new} or more, or start again with cache.rewind()."
            )

    def rewind(self, length: int = 0) -> None:
        """Drop all tokens but the first `length`; by default all of them, for a new prompt.

        The next tokens overwrite the dropped ones, also in views that `append` returned earlier.

        Args:
            length: number of tokens to keep.

        Raises:
            ValueError: a length below 0 or above the current one.
            TypeError: a length that is not an integer.
        """
        check_at_least(0, length=length)
        if length > self.length:
            raise ValueError(
                f"length={length} is more than the {self.length} tokens in the cache: rewind can only shorten it."
            )
        self.length = length

    def __repr__(self) -> str:
        batch, num_kv_heads, _, head_dim = self._keys.shape
        return (
            f"KVCache({self.length} of {self.max_len} tokens, batch={batch}, num_kv_heads={num_kv_heads}, "
            f"head_dim={head_dim}, {self._keys.dtype}, {self.nbytes:,} bytes)"
        )
