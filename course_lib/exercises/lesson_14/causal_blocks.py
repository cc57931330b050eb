"""Blocks that are skipped."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def causal_blocks(num_tokens, query_block, key_block):
    # three ints -> (query block, key block) of bool
    first_query = torch.arange(0, num_tokens, query_block)
    last_query = first_query + query_block - 1  # beyond the last token at most
    first_key = torch.arange(0, num_tokens, key_block)
    return first_key <= last_query[:, None]


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
    wrong="""
torch.ones_like(result).tril()
    the blocks on and below the diagonal of the table: that holds only if both blocks are equally long
    ? With blocks of 4 queries and 2 keys, which key blocks may query 3 attend to?
first_key <= last_query[ => first_key + key_block - 1 <= first_query[
    the blocks in which every query may attend to every key
    ? May a block be skipped in which one of the queries may attend to one of the keys?
last_query[ => first_query[
    the blocks whose first query may attend to their first key
    ? Which query of a block sees the most?
first_key <= last_query[ => (first_key + key_block - 1).clamp(max=num_tokens - 1) <= first_query[
    the blocks in which nothing is hidden; those in which something is visible are asked for
    ? Can a block be skipped if one of its scores is needed?
first_key <= => (first_key + key_block - 1).clamp(max=num_tokens - 1) <=
    the blocks whose last query may attend to their last key
    ? Which key of a block is seen by the most queries?
~result
    the blocks that can be skipped: True should stand where a block is needed [mask-inverted]
    ? What does True mean in this table?
result[:num_tokens // query_block, :num_tokens // key_block]
    a table without the smaller blocks at the end
    ? How many blocks are there for 5 tokens in blocks of 2?
result.T
    a table with query blocks and key blocks exchanged [mask-transposed]
    ? Is a row of your table one block of queries or of keys?
1 => 2
    a table in which a query may not attend to itself [mask-off-by-one]
torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    the causal mask of single tokens, not of blocks
    ? How many blocks of queries are there?
query_block - => num_tokens -
    a table in which every block is needed [no-causal-mask]
""",
)
