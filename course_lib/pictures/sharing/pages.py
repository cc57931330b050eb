"""Draw the blocks of a paged memory, and which sequences have them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from course_lib.attention import PagedKVCache
from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import column, label
from course_lib.pictures.picture import Panels, Picture
from course_lib.pictures.style import NOTE, PLAIN, SMALL, STYLE, WHITE, head_color
from course_lib.pictures.table import Table
from course_lib.wording import counted, listed

MOST_BLOCKS, MOST_SLOTS = 16, 16


@dataclass(frozen=True)
class Block:
    """A block of the memory: the words in its slots, and the sequences that have it."""

    number: int
    words: Sequence[str]  # "" for an empty slot
    users: Sequence[int]

    @property
    def color(self) -> str:
        return head_color(self.users[0]) if len(self.users) == 1 else PLAIN


@dataclass(frozen=True)
class Pages:
    """A whole memory."""

    blocks: Sequence[Block]
    names: Sequence[str]
    tables: Sequence[Sequence[int]]

    @property
    def counts(self) -> str:
        taken = [block for block in self.blocks if block.users]
        shared = sum(len(block.users) > 1 for block in taken)
        empty = sum(not word for block in taken for word in block.words)
        return f"{counted(len(taken), 'block')} taken, {shared} of them shared; {counted(empty, 'empty slot')} in them"

    def describe(self) -> str:
        tables = [f"{name} has the blocks {list(table)}" for name, table in zip(self.names, self.tables, strict=True)]
        lines = [
            f"Block {block.number} of {listed([self.names[user] for user in block.users])}: "
            + ", ".join(word or "(empty)" for word in block.words)
            for block in self.blocks
            if block.users
        ]
        return "\n".join([f"{listed(tables)}.", *(f"{line}." for line in lines), f"{self.counts}."])

    def draw(self) -> Canvas:
        width = max(
            [STYLE.number_cell, *(SMALL.width(word) + STYLE.near for block in self.blocks for word in block.words)]
        )
        table = Table(
            [[(word or "·", block.color if word else WHITE) for word in block.words] for block in self.blocks],
            rows=[f"block {block.number}" for block in self.blocks],
            marks=[
                (listed([self.names[user] for user in block.users]) or "free", block.color) for block in self.blocks
            ],
            cell=(int(width), STYLE.cell),
            row_style=SMALL,
        )
        return column([table.draw(), label(self.counts, NOTE)], STYLE.near)


def draw_pages(caches: Mapping[str, PagedKVCache], words: Mapping[str, Sequence[str]]) -> Picture:
    """Draw the memory that several paged caches share.

    Args:
        caches: name of a sequence -> its cache; all of one pool.
        words: name of a sequence -> a word for each of its tokens.

    Raises:
        ValueError: If there is no cache, they have different pools, the pool is too large to be drawn, or the words
            are not as many as the tokens.
    """
    pools = {id(cache.pool): cache.pool for cache in caches.values()}
    if len(pools) != 1:
        raise ValueError(f"caches has {len(pools)} pools: give one or more caches of the same pool.")
    (pool,) = pools.values()
    size, count = pool.block_size, len(pool.keys)
    if count > MOST_BLOCKS or size > MOST_SLOTS:
        raise ValueError(
            f"the pool has {count} blocks of {size} slots: give one of at most {MOST_BLOCKS} of {MOST_SLOTS}."
        )
    slots = [[""] * size for _ in range(count)]
    users: list[list[int]] = [[] for _ in range(count)]
    for index, (name, cache) in enumerate(caches.items()):
        if len(words.get(name, ())) != cache.length:
            raise ValueError(f"words[{name!r}] must have a word for each of the {cache.length} tokens of its cache.")
        for position, word in enumerate(words[name]):
            slots[cache.block_table[position // size]][position % size] = SMALL.clip(word, STYLE.box)
        for block in cache.block_table:
            users[block].append(index)
    blocks = [Block(number, slots[number], users[number]) for number in range(count)]
    panel = Pages(blocks, list(caches), [cache.block_table for cache in caches.values()])
    note = "A row is a block, a cell the slot of one token, a dot an empty one. A colour is a sequence, grey is shared."
    caption = "The block tables put the blocks of each sequence into its order."
    return Picture.of(Panels([panel], "Who has which block", note, caption))
