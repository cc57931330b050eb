"""Decode: one token at a time, what is computed, what a cache holds, and what it overwrites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from course_lib.attention import BlockPool, KVCache, PagedKVCache, RollingKVCache
from course_lib.inputs import dream_big
from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import column, flow
from course_lib.pictures.picture import Panels, Picture
from course_lib.pictures.style import FAINT, HEADING, NOTE, PLAIN, STYLE, head_color
from course_lib.pictures.table import Table, labels_of
from course_lib.wording import listed

from .figure import Figure
from .share_keys_and_values import PUBLISHED, Model, cache_bytes

TITLE = "What does a cache keep?"
WORDS = (*dream_big().words, "small", "steps", "lead", "to", "big", "dreams")
HEAD_DIM = 4  # of one kv head, in one layer
DTYPE = torch.float16
WINDOW, NUM_SINKS = 4, 1
BLOCK_SIZE, NUM_BLOCKS = 4, 4
STILL = 6  # the token after which the caches are drawn
ROOM = NUM_BLOCKS * BLOCK_SIZE  # tokens for which a cache that keeps all is reserved
LENGTH, BLOCK = 5000, 16  # of a text in a published model, of its pages
REAL = {  # as the four caches, in sizes that are in use: tokens that they hold after this text, and those reserved
    "a cache for 8,192 tokens": (LENGTH, 8192),
    "a window of 4,096 tokens": (4096, 4096),
    "a window of 4,092 tokens beside 4 sinks": (4096, 4096),
    f"pages of {BLOCK} tokens": (LENGTH, -(-LENGTH // BLOCK) * BLOCK),
}
OTHER_LENGTH = 8  # tokens of another text that shares the pages
EMPTY, OTHER = -1, -2  # in place of a position, for a slot of nobody and of the other text
NEW = torch.zeros(1, 1, 1, HEAD_DIM, dtype=DTYPE)  # (batch, kv head, new token, head_dim)


class Step(NamedTuple):
    """The cache after one more token.

    Attributes:
        slots: The position of the token in each slot, or EMPTY, or OTHER.
        read: Positions of the keys and values that the token's query reads.
        kept: Bytes of the keys and values in it.
        reserved: Bytes of the memory that it has for itself.
        table: The block table of a paged cache.
        says: What to see.
    """

    slots: list[int]
    read: list[int]
    kept: int
    reserved: int
    table: list[int]
    says: str


def decode() -> Figure:
    """Return the figure that reads a text token by token, with four caches to choose from.

    It shows which keys and values each step reads, which of them are overwritten, and the bytes, also those of
    published models.

    Example:
        >>> decode().save("decode.html")
        PosixPath('decode.html')
    """
    runs = [CacheRun(name, tuple(steps)) for name, steps in _runs().items()]
    size = f"{HEAD_DIM} numbers, {NEW.element_size()} bytes each"
    data = {
        "words": WORDS,
        "kept": f"{2 * NEW.nbytes} a token, for a key and a value of {size}",
        "blockSize": BLOCK_SIZE,
        "caches": [{"name": run.name, "steps": [step._asdict() for step in run.steps]} for run in runs],
        "real": list(REAL),
        "length": LENGTH,
        "models": [_bytes_of(model) for model in PUBLISHED],
    }
    caption = (
        "Queries are never kept. A window forgets, a sink keeps the first token, pages are reserved as the text grows."
    )
    note = "A cell is a slot for the key and the value of one token, here named by its word."
    scene = Panels(runs, f"Four caches after {STILL + 1} of {len(WORDS)} tokens", note, caption)
    return Figure(TITLE, ("decode.js",), data, Picture.of(scene))


def _runs() -> dict[str, Iterator[Step]]:
    sizes: Any = {"head_dim": HEAD_DIM, "dtype": DTYPE}
    return {
        "Keep all": _steps(KVCache(1, 1, ROOM, **sizes)),
        f"Window of {WINDOW}": _steps(RollingKVCache(1, 1, WINDOW, **sizes)),
        f"Window of {WINDOW - NUM_SINKS}, and a sink": _steps(
            RollingKVCache(1, 1, WINDOW - NUM_SINKS, **sizes, num_sinks=NUM_SINKS)
        ),
        "Pages": _paged_steps(BlockPool(NUM_BLOCKS, BLOCK_SIZE, 1, **sizes)),
    }


def _bytes_of(model: Model) -> dict[str, Any]:
    """Return what a published model keeps of a token, and what each cache holds and reserves after a text."""
    token = cache_bytes(model, model.kv_heads or model.heads, 1)
    return {"name": model.name, "token": token, "after": [[token * n for n in pair] for pair in REAL.values()]}


def _steps(cache: KVCache) -> Iterator[Step]:
    """Append one token after the other."""
    window, slots = cache.window or cache.max_len, [EMPTY] * cache.max_len
    for position in range(len(WORDS)):
        read = list(cache.key_positions(1))
        cache.append(NEW, NEW)
        sinks = cache.num_sinks
        slot = position if position < sinks else sinks + (position - sinks) % window
        before, slots = slots[slot], [*slots[:slot], position, *slots[slot + 1 :]]
        kept = (cache.keys.nbytes + cache.values.nbytes, cache.nbytes)
        yield Step(slots, read, *kept, [], _said_of(position, before, sinks))


def _said_of(position: int, before: int, sinks: int) -> str:
    word = WORDS[position]
    if position == len(WORDS) - 1 and before == EMPTY:
        return f"The text ends with “{word}”, and {ROOM - len(WORDS)} of {ROOM} slots were reserved in vain."
    if position == 0:
        kept = "for good, as a sink" if sinks else "for the words to come"
        return f"“{word}” is the first word: its key and value are kept {kept}, but its query is not."
    if before == EMPTY:
        others = f"of the {position} words" if position > 1 else "of the word"
        return f"Only “{word}” is computed; the keys and values {others} before it come from the cache."
    stays = f"; “{WORDS[0]}” stays, because heads lean on the first token" if sinks else ""
    gone = "" if sinks else ", which has left the window and will never be read again"
    return f"“{word}” takes the slot of “{WORDS[before]}”{gone}{stays}."


def _paged_steps(pool: BlockPool) -> Iterator[Step]:
    """Append a token to our text, then one to another text, which ends earlier and frees its blocks."""
    ours, other = PagedKVCache(pool), PagedKVCache(pool)
    token_bytes = (pool.keys[0].nbytes + pool.values[0].nbytes) // BLOCK_SIZE
    for position, word in enumerate(WORDS):
        ended = position == OTHER_LENGTH
        if ended:
            other.free()
        blocks, read = len(ours.block_table), list(ours.key_positions(1))
        ours.append(NEW, NEW)
        if position < OTHER_LENGTH:
            other.append(NEW, NEW)
        slots = [EMPTY] * NUM_BLOCKS * BLOCK_SIZE
        for cache in (other, ours):
            for token in range(cache.length):
                block = cache.block_table[token // BLOCK_SIZE]
                slots[block * BLOCK_SIZE + token % BLOCK_SIZE] = token if cache is ours else OTHER
        table, last = list(ours.block_table), ours.block_table[-1]
        if position == len(WORDS) - 1:
            says = f"The text ends with “{word}”, and block {pool.free_blocks[-1]} is free for another text, where "
            says += f"a cache that keeps all has reserved {ROOM} slots from the first word on."
        elif ended:
            says = f"The other text has ended and its blocks are free: “{word}” takes block {last}, and the block table"
            says += f" {table} keeps the order."
        elif len(table) > blocks:
            says = f"“{word}” needs a block and takes the next free one, block {last}; the block table is now {table}."
        else:
            says = f"“{word}” still fits into block {last}, and nothing is reserved for the text beyond that block."
        kept = (len(read) * token_bytes, len(table) * BLOCK_SIZE * token_bytes)
        yield Step(slots, read, *kept, table, says)


@dataclass(frozen=True)
class CacheRun:
    """One kind of cache, step by step, drawn after some of them."""

    name: str
    steps: Sequence[Step]

    @property
    def still(self) -> Step:
        return self.steps[STILL]

    @property
    def amount(self) -> str:
        table = f", block table {self.still.table}" if self.still.table else ""
        return f"{self.still.kept} of {self.still.reserved} reserved bytes in use{table}"

    def describe(self) -> str:
        held = [f"slot {slot} “{WORDS[position]}”" for slot, position in enumerate(self.still.slots) if position >= 0]
        return f"{self.name}: {listed(held)}; {self.amount}."

    def draw(self) -> Canvas:
        special = {EMPTY: ("", FAINT), OTHER: ("other", PLAIN)}
        cells = [special.get(position) or (WORDS[position], head_color(0)) for position in self.still.slots]
        names = [f"block {slot // BLOCK_SIZE}" if self.still.table else f"{slot}" for slot in range(len(cells))]
        table = Table([cells], above=labels_of(names), cell=STYLE.word_cell)
        return column([flow([(self.name, HEADING), (self.amount, NOTE)]), table.draw()], STYLE.tight)
