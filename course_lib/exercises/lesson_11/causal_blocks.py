"""Blocks that are skipped."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def causal_blocks(num_tokens, query_block, key_block):
    # three ints -> (query block, key block) of bool
    first_query = torch.arange(0, num_tokens, query_block)
    last_query = first_query + query_block - 1  # beyond the last token at most
    first_key = torch.arange(0, num_tokens, key_block)
    return first_key <= last_query[:, None]


def _starts(num_tokens: int, block: int) -> Tensor:
    return torch.arange(0, num_tokens, block)


def _triangle(n: int, q: int, k: int) -> Tensor:
    return torch.ones(len(_starts(n, q)), len(_starts(n, k)), dtype=torch.bool).tril()


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for small, large in ((2, rng.choice((3, 5))), (3, rng.choice((4, 5)))):  # no common divisor
        tokens = rng.choice((5, 6, 7, 8)) * small * large + 1 + rng.integer(small - 1)  # the last blocks are smaller
        cases += [Case((tokens, *pair)) for pair in ((small, large), (large, small))]
    block, times, rest = rng.sizes(3, 3, 9)
    even = Case((block * times, block, block))  # whole blocks, as many of queries as of keys
    return [*cases, even, Case((rest, rest + 3, 2)), Case((1, 4, 4))]


EXERCISE = FunctionExercise(
    causal_blocks,
    title="Blocks that are skipped",
    difficulty=3,
    minutes=7,
    prompt=(
        "A kernel cuts the scores of `num_tokens` queries and `num_tokens` keys into blocks of `query_block` rows and "
        "`key_block` columns; the last blocks may be smaller. The mask is causal: a query may attend to itself and to "
        "earlier keys. Give back a table of bool, (query block, key block), that is True where at least one query of "
        "the block may attend to at least one of its keys, and False where the block can be skipped."
    ),
    hints=(
        "In a block, which query sees the most keys, and which key is seen by the most queries?",
        "A block is needed if its last query may attend to its first key.",
        "Query block i ends with query (i + 1) * query_block - 1, and key block j begins with key j * key_block. "
        "Compare a column of the one with a row of the other; `torch.arange(0, num_tokens, key_block)` makes the row.",
    ),
    draw=_draw,
    least={"num_tokens": 1, "query_block": 1, "key_block": 1},
    axes="query_block key_block",
    wrong=(
        Wrong(
            "the blocks on and below the diagonal of the table: that holds only if both blocks are equally long",
            _triangle,
            hint="With blocks of 4 queries and 2 keys, which key blocks may query 3 attend to?",
        ),
        Wrong(
            "the blocks in which every query may attend to every key",
            lambda n, q, k: _starts(n, k) + k - 1 <= _starts(n, q)[:, None],
            hint="May a block be skipped in which one of the queries may attend to one of the keys?",
        ),
        Wrong(
            "the blocks whose first query may attend to their first key",
            lambda n, q, k: _starts(n, k) <= _starts(n, q)[:, None],
            hint="Which query of a block sees the most?",
        ),
        Wrong(
            "the blocks in which nothing is hidden; those in which something is visible are asked for",
            lambda n, q, k: (_starts(n, k) + k - 1).clamp(max=n - 1) <= _starts(n, q)[:, None],
            hint="Can a block be skipped if one of its scores is needed?",
        ),
        Wrong(
            "the blocks whose last query may attend to their last key",
            lambda n, q, k: (_starts(n, k) + k - 1).clamp(max=n - 1) <= (_starts(n, q) + q - 1)[:, None],
            hint="Which key of a block is seen by the most queries?",
        ),
        Wrong(
            "the blocks that can be skipped: True should stand where a block is needed",
            lambda n, q, k: ~causal_blocks(n, q, k),
            mistake="mask-inverted",
            hint="What does True mean in this table?",
        ),
        Wrong(
            "a table without the smaller blocks at the end",
            lambda n, q, k: causal_blocks(n, q, k)[: n // q, : n // k],
            hint="How many blocks are there for 5 tokens in blocks of 2?",
        ),
        Wrong(
            "a table with query blocks and key blocks exchanged",
            lambda n, q, k: causal_blocks(n, q, k).T,
            "mask-transposed",
            "Is a row of your table one block of queries or of keys?",
        ),
        Wrong(
            "a table in which a query may not attend to itself",
            lambda n, q, k: _starts(n, k) < (_starts(n, q) + q - 1)[:, None],
            "mask-off-by-one",
        ),
        Wrong(
            "the causal mask of single tokens, not of blocks",
            lambda n, q, k: torch.ones(n, n, dtype=torch.bool).tril(),
            hint="How many blocks of queries are there?",
        ),
        Wrong(
            "a table in which every block is needed",
            lambda n, q, k: torch.ones_like(causal_blocks(n, q, k)),
            "no-causal-mask",
        ),
    ),
)
