"""Attention in blocks."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise

from .online_step import online_step


def blocked_attention(queries, keys, values, block, causal):
    # 2 x (t, d), (t, width), int, bool -> (t, width), int
    computed = 0
    context = torch.zeros(len(queries), values.shape[1], dtype=values.dtype)
    for first in range(0, len(queries), block):
        rows = queries[first : first + block] * queries.shape[1] ** -0.5  # (q, d)
        total = torch.zeros_like(rows[:, 0])
        largest = total - torch.inf
        mixed = torch.zeros(len(rows), values.shape[1], dtype=values.dtype)
        for start in range(0, first + 1 if causal else len(keys), block):
            tile = slice(start, start + block)
            scores = rows @ keys[tile].T  # (q, d) @ (d, k) -> (q, k)
            if causal and start == first:
                keep = torch.ones_like(scores, dtype=torch.bool).tril()
                scores = scores.masked_fill(~keep, -torch.inf)
            step = online_step(largest, total, mixed, scores, values[tile])
            largest, total, mixed = step
            computed += 1
        context[first : first + block] = mixed / total[:, None]
    return context, computed


def _low_first(queries: Tensor, keys: Tensor) -> Tensor:
    """Return keys with which the first query, which sees one key only, has a score of -20000."""
    first = -20000.0 * queries.shape[1] ** 0.5 * queries[:1] / queries[0].square().sum()
    return torch.cat([first, 30 * keys[1:]])


EXERCISE = FunctionExercise(
    blocked_attention,
    title="Attention in blocks",
    difficulty=4,
    minutes=15,
    prompt=(
        "The loops of a fused kernel, for one head, from memory; `online_step` of the lesson is given. Such a kernel "
        "never makes a tensor of all queries and all keys; here only what you give back is compared, so that is up to "
        "you. There are as many queries as keys. Cut the queries into blocks of `block` rows and the keys likewise; "
        "the last blocks may be smaller. For each block of queries go through the blocks of keys with an online "
        "softmax, scaled. If `causal`, a query sees itself and earlier keys, and blocks that are hidden as a whole are "
        "skipped. Give back two values: the context, (token, width), and how many blocks of scores were computed, an "
        "int. The check also comes with scores of several thousands, above and below 0."
    ),
    hints=(
        "Two loops, queries outside and keys inside. Each block of queries starts anew with -inf, 0 and 0, and divides "
        "its context by its total after its last block of keys.",
        "`online_step` is the inside of the inner loop. If causal, the inner loop ends with the block on the diagonal, "
        "and only that block needs a mask.",
        "`for first in range(0, len(queries), block)`, inside it `for start in range(0, first + 1 if causal else "
        "len(keys), block)`. Mask the scores where `start == first`, with a triangle of the block's own size, and add "
        "1 to the count.",
    ),
    given=inspect.getsource(online_step),
    inputs={
        "token": lambda rng, block: 3 * block + 1 + rng.integer(block - 1),  # the last block is smaller
        "causal": [False, True],
    },
    std=1.5,
    also=(
        {"queries": lambda queries: 30 * queries, "keys": _low_first, "causal": True},
        {"token": lambda block: 2 * block, "causal": True},
        {"token": 6, "block": 9, "causal": True},
        {"token": 6, "block": 1, "causal": False},
    ),
    arguments={"queries": "token head_dim", "keys": "token head_dim", "values": "token width"},
    axes="context computed",
    wrong="""
(result[0], right(queries, keys, values, block, False)[1])
    the right context, with every block computed, even those that are hidden as a whole
    ? Which keys does the first block of queries see?
(result[0], len(queries) * (len(queries) + 1) // 2 if causal else len(queries) ** 2)
    the right context, with the number of scores instead of the number of blocks
    ? What does your count count?
(result[0], -(-len(queries) // block))
    the right context, with the number of the blocks of keys instead of that of all blocks
    ? Are the queries in blocks, too?
(right(queries, keys, values, block, False)[0], result[1])
    attention without a mask, whatever `causal` is [no-causal-mask]
total - torch.inf => total
    attention whose largest score starts at a number such as 0 or -1000: where all scores are far below it, each weight
        is 0
    ? Which number is smaller than every score?
total - torch.inf => total - 1000.0
    attention whose largest score starts at a number such as 0 or -1000: where all scores are far below it, each weight
        is 0
    ? Which number is smaller than every score?
scores.masked_fill(~keep, -torch.inf) => scores.masked_fill(~keep, 0.0)
    attention in which hidden scores are 0, which is a score like any other
    ? Which weight does a hidden key get, and which score makes it 0?
~keep, -torch.inf => ~keep, -1000.0
    attention in which hidden scores are -1000, which is more than a score of -6000
    ? Which weight does a hidden key get, and which score makes it 0?
start == first => False
    attention in which blocks are hidden, and no single score within a block
    ? In the block on the diagonal, what does the first query see?
step = online_step(largest, total, mixed, scores, values[tile]) => step = largest, total, mixed + scores.softmax(-1) @ values[tile] && mixed / total[:, None] => mixed
    a sum of softmaxes, one for each block of keys
    ? What do the weights of a row sum to, over all blocks?
step = online_step(largest, total, mixed, scores, values[tile]) => step = largest, total + 1, mixed + scores.softmax(-1) @ values[tile]
    the mean of softmaxes, one for each block of keys: a block counts as much as any other, whatever its scores
    ? If all scores of one block are far below those of another, how much of its values should be left?
len(queries), block) => len(queries) // block * block, block) && len(keys), => len(keys) // block * block,
    attention without the last, smaller block, of queries and of keys
    ? Where do your loops end for 5 tokens in blocks of 2?
range(0, first + 1 if causal else len(keys), block) => range(0, min(first + 1 if causal else len(keys), len(keys) // block * block), block)
    attention without the last, smaller block of keys
    ? Where does your inner loop end for 5 tokens in blocks of 2?
step = online_step(largest, total, mixed, scores, values[tile]) => new = torch.maximum(largest, scores.amax(-1)); weights = (scores - new[:, None]).exp(); step = new, total + weights.sum(-1), mixed + weights @ values[tile]
    sums that are not made smaller when a block brings a larger score
    ? To which largest score do the old total and the old context refer?
mixed / total[:, None] => mixed
    a context that is not divided by its total
    ? What is left to do after the last block of keys?
context, computed => context
    the context alone; the number of blocks is asked for, too
    ? How many values does the task ask for?
(right(queries, keys, values, block, True)[0], result[1])
    causal attention, whatever `causal` is
    ? Where does your code use `causal`?
right(queries, keys, values, block, True)
    causal attention and its number of blocks, whatever `causal` is
    ? Where does your code use `causal`?
right(queries, keys, values, block, False)
    attention without a mask and the number of all blocks, whatever `causal` is [no-causal-mask]
first: => start:
    attention in which every block is masked like the one on the diagonal
    ? In a block left of the diagonal, which keys are later than a query?
whole = slice(len(queries) // block * block); return result[0], right(queries[whole], keys[whole], values[whole], block, causal)[1]
    the right context, with the smaller blocks at the end left out of the number
    ? How many blocks are there for 5 tokens in blocks of 2?
(result[0], result[1] - (-(-len(queries) // block) if causal else 0))
    the right context, with the blocks below the diagonal of the table; those on it are computed, too
    ? Which block does the first block of queries need?
result[0][len(queries) // block * block :] = 0.0; return result
    a context whose last, smaller block of queries is missing
    ? Where does your outer loop end for 5 tokens in blocks of 2?
scores = queries @ keys.T * queries.shape[1] ** -0.5; scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool() & causal, -torch.inf); return scores.softmax(0) @ values, result[1]
    attention with softmax over the queries [softmax-wrong-axis]
""",
)
