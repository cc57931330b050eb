"""A paged key-value cache: sequences of any length share one memory, which is cut into blocks of equal size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .block_pool import BlockPool
from .cache import Cache
from .masks import padding_keep


class PagedKVCache(Cache):
    """The cache of one sequence, in blocks of a pool that many sequences share.

        block = block_table[position // block_size]
        slot  = position % block_size

    Blocks are taken as the sequence grows and given back by `free`, so that a sequence wastes less than one block,
    whereas a `KVCache` holds max_len tokens from the beginning. `module(x, cache=cache)` takes it as any other cache.

    Args:
        pool: the memory, which decides the sizes.

    Attributes:
        block_table: the blocks of the sequence, in the order of its tokens.
        length: number of tokens in it.

    Raises:
        TypeError: a pool that is not a BlockPool.

    Source: Kwon et al., 2023, section 4.
    """

    built_by = "BlockPool(num_blocks, block_size, num_kv_heads, head_dim)"

    def __init__(self, pool: BlockPool) -> None:
        if not isinstance(pool, BlockPool):
            raise TypeError(f"pool must be a BlockPool, got {type(pool).__name__}.")
        self.pool = pool
        self._keys, self._values = pool.keys, pool.values
        self.block_table: list[int] = []
        self.batch = 1
        self.length = 0

    @property
    def keys(self) -> Tensor:
        """The keys so far, (1, kv head, length, head_dim), as a copy, gathered from the blocks."""
        return gather_paged([self])[0]

    @property
    def values(self) -> Tensor:
        """The values so far, (1, kv head, length, value_dim), as a copy, gathered from the blocks."""
        return gather_paged([self])[1]

    @property
    def wasted_slots(self) -> int:
        """Number of slots in its blocks that hold no token: less than block_size."""
        return len(self.block_table) * self.pool.block_size - self.length

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens into the last block, and into as many new ones as are needed.

        Args:
            keys: (1, kv head, new token, head_dim).
            values: (1, kv head, new token, value_dim).

        Returns:
            All keys and all values of the sequence, (1, kv head, length, ...), as copies.

        Raises:
            ValueError, TypeError: as `KVCache.append`, or the pool has too few free blocks; nothing is written.
        """
        self.check_new(keys, values)
        positions = range(self.length, self.length + keys.shape[2])
        for _ in range(self._missing_blocks(len(positions))):
            self.block_table.append(self.pool.take())
        blocks = [self.block_table[position // self.pool.block_size] for position in positions]
        slots = [position % self.pool.block_size for position in positions]
        self.pool.keys[blocks, :, slots] = keys[0].transpose(0, 1)  # (new, g, d)
        self.pool.values[blocks, :, slots] = values[0].transpose(0, 1)
        self.length += len(positions)
        keys, values, _ = gather_paged([self])
        return keys, values

    def fork(self) -> PagedKVCache:
        """A second sequence that begins with the same tokens: full blocks are shared, the last part is copied.

        Full blocks are never written again, so both may go on independently. This serves a common prompt, and several
        answers to one.

        Raises:
            ValueError: the last block is partly filled, and the pool has no free block for a copy of it.
        """
        twin = PagedKVCache(self.pool)
        num_full = self.length // self.pool.block_size
        if num_full < len(self.block_table):
            self.pool.check_free(1)
        for block in self.block_table[:num_full]:
            self.pool.share(block)
            twin.block_table.append(block)
        for block in self.block_table[num_full:]:
            copy = self.pool.take()
            self.pool.keys[copy], self.pool.values[copy] = self.pool.keys[block], self.pool.values[block]
            twin.block_table.append(copy)
        twin.length = self.length
        return twin

    def free(self) -> None:
        """Forget all tokens, and give back the blocks that no other sequence uses."""
        for block in reversed(self.block_table):
            self.pool.release(block)
        self.block_table = []
        self.length = 0

    def check_room(self, new: int) -> None:
        """Refuse more tokens than the pool has free blocks for."""
        self.pool.check_free(self._missing_blocks(new))

    def _missing_blocks(self, new: int) -> int:
        return max(0, -(-(new - self.wasted_slots) // self.pool.block_size))  # rounded up

    def __repr__(self) -> str:
        return f"PagedKVCache({self.length} tokens in the blocks {self.block_table}, {self.wasted_slots} slots wasted)"


def gather_paged(caches: Sequence[PagedKVCache]) -> tuple[Tensor, Tensor, Tensor]:
    """The keys and values of several sequences of one pool as a padded batch, for one call of `attend`.

    Args:
        caches: one per sample, all of one pool.

    Returns:
        Padded keys and values, (batch, kv head, longest, width), and a mask, (batch, 1, 1, longest), which hides
        what stands after the end of a shorter sequence.

    Raises:
        ValueError: no cache, or caches of different pools.
    """
    if not caches or any(cache.pool is not caches[0].pool for cache in caches):
        raise ValueError("gather_paged needs one or more caches of the same pool: their blocks lie in one memory.")
    pool, lengths = caches[0].pool, [cache.length for cache in caches]
    num_blocks = max(len(cache.block_table) for cache in caches)
    tables = [cache.block_table + [0] * (num_blocks - len(cache.block_table)) for cache in caches]
    table = torch.tensor(tables, dtype=torch.int64, device=pool.keys.device)  # (batch, block)
    gathered = []
    for storage in (pool.keys, pool.values):
        blocks = storage[table]  # (batch, block, g, slot, d)
        in_order = blocks.transpose(1, 2).flatten(2, 3)  # (batch, block, g, slot, d) -> (batch, g, k, d)
        gathered.append(in_order[:, :, : max(lengths)])
    keep = padding_keep(lengths, max(max(lengths), 1), device=table.device)[..., : max(lengths)]
    return gathered[0], gathered[1], keep
