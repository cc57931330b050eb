"""Roofline: attention and a weight matrix under the roof of a machine, with the reader's batch, length and sizes."""

from __future__ import annotations

from typing import NamedTuple

from course_lib.pictures.charts.roofline import roofline as draw_roofline

from .figure import Figure

TITLE = "Does it wait for memory or for arithmetic?"
HEADS, HEAD_DIM = 32, 64  # query heads of a layer; its weight matrices have HEADS * HEAD_DIM rows and columns
FLOPS, SPEED = 989e12, 3350e9  # H100 SXM: operations on two-byte numbers per second, bytes per second
SLIDERS = {
    "batch": [2**power for power in range(10)],
    "tokens": [2**power for power in range(18)],
    "kvHeads": [32, 16, 8, 4, 2, 1],
    "bits": [4, 8, 16, 32],
    "flops": [FLOPS * 2.0**power for power in range(-2, 3)],
    "speed": [SPEED * 2.0**power for power in range(-2, 3)],
}
FIRST = {"batch": 1, "tokens": 4096, "kvHeads": 32, "bits": 16, "flops": FLOPS, "speed": SPEED}
DRAWN = {  # query_len, kv_heads
    "prefill, multi-head": (4096, 32),
    "decode, multi-head": (1, 32),
    "decode, grouped": (1, 8),
    "decode, multi-query": (1, 1),
}


class Work(NamedTuple):
    """What a computation does: its multiplications and additions, and the bytes it reads and writes."""

    operations: int
    moved: float

    @property
    def intensity(self) -> float:
        return self.operations / self.moved


def attention_work(
    batch: int, query_len: int, key_len: int, kv_heads: int, bits: int, *, table_moves: bool = False
) -> Work:
    """Count the two products of attention without a mask, in HEADS heads of width HEAD_DIM.

    Queries, keys and values are read and the context is written, each once. If `table_moves`, scores and attention
    weights are written and read as well, as in the explicit form.
    """
    pairs = HEADS * query_len * key_len
    numbers = 2 * (HEADS * query_len + kv_heads * key_len) * HEAD_DIM + (4 * pairs if table_moves else 0)
    return Work(batch * 4 * pairs * HEAD_DIM, batch * numbers * bits / 8)


def matrix_work(batch: int, query_len: int, bits: int) -> Work:
    """Count the product of (batch, query, width) and a square weight matrix, which is read once for all texts."""
    tokens, width = batch * query_len, HEADS * HEAD_DIM
    return Work(2 * tokens * width**2, (width**2 + 2 * tokens * width) * bits / 8)


def roofline() -> Figure:
    """Return the figure in which attention and a weight matrix move under the roof of a machine.

    Batch, length, kv heads, bits per number and the two limits of the machine are sliders; it begins with the data
    sheet of an H100.

    Example:
        >>> roofline().save("roofline.html")
        PosixPath('roofline.html')
    """
    data = {"heads": HEADS, "headDim": HEAD_DIM, "sliders": SLIDERS, "first": FIRST}
    points = {
        name: attention_work(1, query_len, FIRST["tokens"], kv_heads, FIRST["bits"]).intensity
        for name, (query_len, kv_heads) in DRAWN.items()
    }
    note = "Computed from the data sheet, not measured. A real program is below the line."
    machine = {"gflops": FLOPS / 1e9, "gb_per_s": SPEED / 1e9}
    picture = draw_roofline(points, **machine, title="Attention on an H100, at best", note=note)
    return Figure(TITLE, ("roofline.js",), data, picture)
