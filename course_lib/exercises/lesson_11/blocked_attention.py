"""Attention in blocks."""

from __future__ import annotations

import inspect

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

from .online_step import online_step
from .wrong_blocks import WRONG


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


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for number, (block, head_dim, width) in enumerate(rng.size_rows(4, 3, 2, 8)):
        tokens = 3 * block + 1 + rng.integer(block - 1)  # the last block is smaller
        std = 40.0 if number == 3 else 1.5
        shapes = (tokens, head_dim), (tokens, head_dim), (tokens, width)
        queries, keys, values = (
            rng.normal(*shape, std=one) for shape, one in zip(shapes, (std, std, 1.0), strict=True)
        )
        if number == 3:  # the first query, which sees one key only, has a score of -6000
            keys[0] = -6000.0 * head_dim**0.5 * queries[0] / queries[0].square().sum()
        cases.append(Case((queries, keys, values, block, number % 2 == 1)))
    queries, keys, values, block, _ = cases[1].arguments
    whole = (queries[: 2 * block], keys[: 2 * block], values[: 2 * block])
    return [*cases, Case((*whole, block, True)), Case((*whole, 3 * block, True)), Case((*whole, 1, False))]


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
    draw=_draw,
    arguments={"queries": "token head_dim", "keys": "token head_dim", "values": "token width"},
    axes="context computed",
    wrong=WRONG,
)
