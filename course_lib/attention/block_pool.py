"""The memory of paged caches: blocks of equal size, which sequences allocate and release."""

from __future__ import annotations

import torch

from .cache import allocate
from .checks import check_positive


class BlockPool:
    """The memory that paged caches take their blocks from.

    It stores num_blocks * block_size * num_kv_heads * (head_dim + value_dim) elements, whether filled or not.

    Args:
        num_blocks: number of blocks.
        block_size: number of tokens per block.
        num_kv_heads: heads of keys and values.
        head_dim: width of a key.
        value_dim: width of a value; head_dim if None.
        dtype: dtype of the keys and values to come; PyTorch's default floating-point dtype if None.
        device: device of the memory.

    Attributes:
        keys: (block, kv head, slot, head_dim).
        values: (block, kv head, slot, value_dim).
        free_blocks: the blocks that nobody uses; the last one is taken first.
        num_users: how many caches use each block; more than one share it.

    Raises:
        ValueError: a size below 1.
        TypeError: a size that is not an integer, a dtype that is not floating point.

    Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
    section 4.

    Example:
        >>> pool = BlockPool(num_blocks=8, block_size=4, num_kv_heads=2, head_dim=3)
        >>> cache = PagedKVCache(pool)
        >>> _ = cache.append(torch.zeros(1, 2, 5, 3), torch.zeros(1, 2, 5, 3))
        >>> cache.block_table, cache.wasted_slots, len(pool.free_blocks)
        ([0, 1], 3, 6)
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        value_dim = head_dim if value_dim is None else value_dim
        check_positive(num_blocks=num_blocks, block_size=block_size)
        check_positive(num_kv_heads=num_kv_heads, head_dim=head_dim, value_dim=value_dim)
        self.keys, self.values = allocate(num_blocks, num_kv_heads, block_size, head_dim, value_dim, dtype, device)
        self.block_size = block_size
        self.free_blocks = list(reversed(range(num_blocks)))
        self.num_users = [0] * num_blocks

    def take(self) -> int:
        """Take a free block; ask `check_free` before."""
        block = self.free_blocks.pop()
        self.num_users[block] = 1
        return block

    def share(self, block: int) -> None:
        """Count one more user of a block."""
        self.num_users[block] += 1

    def release(self, block: int) -> None:
        """Drop one user of a block; a block without users is free."""
        self.num_users[block] -= 1
        if self.num_users[block] == 0:
            self.free_blocks.append(block)

    def check_free(self, num_blocks: int) -> None:
        """Refuse to hand out more blocks than are free."""
        if num_blocks > len(self.free_blocks):
            raise ValueError(
                f"the sequence needs more blocks ({num_blocks}) than are free ({len(self.free_blocks)} of "
                f"{len(self.keys)}): call free() on a sequence that has ended, or build BlockPool with more blocks."
            )

    def __repr__(self) -> str:
        num_blocks, num_kv_heads, block_size, head_dim = self.keys.shape
        return (
            f"BlockPool({len(self.free_blocks)} of {num_blocks} blocks free, block_size={block_size}, "
            f"num_kv_heads={num_kv_heads}, head_dim={head_dim}, {self.keys.dtype})"
        )
