"""A rolling key-value cache: with a sliding window, the cache holds the last few tokens however long the text is."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .checks import check_at_least, check_positive
from .kv_cache import KVCache


class RollingKVCache(KVCache):
    """Keys and values of the last `window` tokens and of the first `num_sinks`, in memory that is reused in a circle.

        slot = position                                        for the sinks, position < num_sinks
        slot = num_sinks + (position - num_sinks) % window     for the others: each overwrites the one a window before

    For `LlamaAttention(..., window=window, num_sinks=num_sinks)`, for which it gives what a `KVCache` of all tokens
    gives. Keys are rotated by their position in the text before they are stored, and stay so. (Xiao et al. rotate them
    by their position within the cache instead, which a text longer than the trained context needs.)

    It stores batch * num_kv_heads * (num_sinks + window) * (head_dim + value_dim) elements.

    Args:
        batch: number of samples.
        num_kv_heads: heads of keys and values.
        window: number of last tokens that it keeps, the newest included.
        head_dim: width of a key.
        num_sinks: number of first tokens that it keeps besides, the attention sinks.
        value_dim: width of a value; head_dim if None.
        dtype: dtype of the keys and values to come; PyTorch's default floating-point dtype if None.
        device: device of the cache.

    Attributes:
        length: number of tokens appended so far, dropped ones included: the position of the next token.
        max_len: number of tokens that it holds at most, num_sinks + window.

    Raises:
        ValueError: a size below 1, a num_sinks below 0.
        TypeError: a size that is not an integer, a dtype that is not floating point.

    Source: Jiang et al., "Mistral 7B", 2023, section 2; the sinks: Xiao et al., "Efficient Streaming Language Models
    with Attention Sinks", 2023, section 3.2.

    Example:
        >>> cache = RollingKVCache(1, 2, 3, 4, num_sinks=1)
        >>> keys, values = cache.append(torch.zeros(1, 2, 9, 4), torch.zeros(1, 2, 9, 4))
        >>> cache.length, cache.positions
        (9, [0, 6, 7, 8])
    """

    built_by = "RollingKVCache(batch, num_kv_heads, window, head_dim)"

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        window: int,
        head_dim: int,
        *,
        num_sinks: int = 0,
        value_dim: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        check_positive(window=window)
        check_at_least(0, num_sinks=num_sinks)
        max_len = num_sinks + window
        super().__init__(batch, num_kv_heads, max_len, head_dim, value_dim=value_dim, dtype=dtype, device=device)
        self.window = self._window = window
        self.num_sinks = num_sinks

    @property
    def positions(self) -> list[int]:
        """The positions of the tokens that it holds, in their order."""
        return self._visible_from(self.length - self._window)

    @property
    def keys(self) -> Tensor:
        """The keys that it holds, (batch, kv head, token, head_dim), in the order of `positions`, as a copy."""
        return self._keys[:, :, self._slots(self.positions)]

    @property
    def values(self) -> Tensor:
        """The values that it holds, (batch, kv head, token, value_dim), in the order of `positions`, as a copy."""
        return self._values[:, :, self._slots(self.positions)]

    def key_positions(self, new: int) -> Sequence[int]:
        """The positions of the keys that `append` returns: sinks, the window of the first new token, the new tokens."""
        return [*self._visible_from(self.length - self._window + 1), *range(self.length, self.length + new)]

    def key_len(self, new: int) -> int:
        """The number of keys that `append` returns: num_sinks + window - 1 + new, once the cache is full."""
        return len(self.key_positions(new))

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens over those that no later token attends to.

        Args:
            keys: (batch, kv head, new token, head_dim), any number of new tokens, also more than the window.
            values: (batch, kv head, new token, value_dim).

        Returns:
            The keys and values that the new tokens need, as copies in the order of `key_positions(new)`. As the last
            query belongs to the last key, `window_keep(new, keys.shape[2], window, num_sinks=num_sinks)` is their mask.

        Raises:
            ValueError, TypeError: as `KVCache.append`, except that there is always room.
        """
        self.check_new(keys, values)
        start, end = self.length, self.length + keys.shape[2]
        earlier = self._slots(self.key_positions(0))
        seen_keys = torch.cat([self._keys[:, :, earlier], keys], dim=2)
        seen_values = torch.cat([self._values[:, :, earlier], values], dim=2)

        self.length = end
        new = [position for position in self.positions if position >= start]  # those of x that stay
        source = [position - start for position in new]
        self._keys[:, :, self._slots(new)] = keys[:, :, source]
        self._values[:, :, self._slots(new)] = values[:, :, source]
        return seen_keys, seen_values

    def check_room(self, new: int) -> None:
        """There is always room: the oldest tokens are overwritten."""

    def rewind(self, length: int = 0) -> None:
        """Drop all tokens but the first `length`, unless some of those that would stay were overwritten.

        Args:
            length: number of tokens to keep: 0, or any number while nothing was overwritten.

        Raises:
            ValueError: as `KVCache.rewind`, or tokens were overwritten.
            TypeError: a length that is not an integer.
        """
        check_at_least(0, length=length)
        if 0 < length < self.length and self.length > self.max_len:
            raise ValueError(
                f"the cache has overwritten tokens before position {self.length - self._window}, so it can't go back "
                f"to length={length}: start again with cache.rewind()."
            )
        super().rewind(length)

    def _visible_from(self, first: int) -> list[int]:
        sinks = range(min(self.num_sinks, self.length))
        return [*sinks, *range(max(first, self.num_sinks), self.length)]

    def _slots(self, positions: Sequence[int]) -> list[int]:
        return [p if p < self.num_sinks else self.num_sinks + (p - self.num_sinks) % self._window for p in positions]

    def __repr__(self) -> str:
        return (
            f"RollingKVCache({len(self.positions)} of {self.length} tokens, window={self.window}, "
            f"num_sinks={self.num_sinks}, {self._keys.dtype}, {self.nbytes:,} bytes)"
        )
