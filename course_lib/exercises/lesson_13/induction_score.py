"""Measure an induction head."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

from .comes_after_copy import comes_after_copy, repeated_tokens
from .previous_token_score import causal_weights


def induction_score(weights, tokens):
    # (batch, head, query, key), (batch, token) of integers -> (head)
    after_copy = comes_after_copy(tokens)  # (b, q, k)
    # (b, h, q, k) * (b, 1, q, k) -> (b, h, q)
    found = (weights * after_copy[:, None]).sum(dim=-1)
    has_copy = after_copy.any(dim=-1)  # (b, q)
    # (b, q, h) -> (query with a copy, h) -> (h)
    return found.transpose(1, 2)[has_copy].mean(dim=0)


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for heads, tokens in zip(rng.sizes(2, 4, 6), (13, 15), strict=True):
        rows = [repeated_tokens(rng, 1, tokens, period) for period in rng.sizes(2, 3, 5) + rng.sizes(1, 7, 9)]
        letters = torch.cat(rng.shuffled(rows))  # of three samples, with different numbers of copies
        cases.append(Case((causal_weights(rng, 3, heads, tokens), letters), "three samples repeat their tokens"))
    irregular = torch.tensor([[rng.integer(5) for _ in range(10)] for _ in range(6)])
    about = "tokens are repeated in no order"
    return [*cases, Case((causal_weights(rng, 6, 4, 10), irregular), about)]


EXERCISE = FunctionExercise(
    induction_score,
    title="Measure an induction head",
    difficulty=3,
    minutes=5,
    prompt=(
        "How much does each head look at what came after an earlier copy? For each query whose token has an earlier "
        "copy, add up the weights on all keys that `comes_after_copy` marks. Give back the mean of these sums for each "
        "head, over all such queries of all samples together. Queries without an earlier copy don't count. `weights` "
        "are causal, and each sample has copies."
    ),
    hints=(
        "Three steps: mark the keys, add up the marked weights of each query, take the mean over the queries.",
        "The marks are (batch, query, key) and the weights (batch, head, query, key): the marks need an axis for the "
        "heads. A query counts if any of its keys is marked.",
        "`found = (weights * marks[:, None]).sum(-1)` is (batch, head, query). Divide its sum over samples and queries "
        "by `marks.any(-1).sum()`.",
    ),
    draw=_draw,
    draw_edges=lambda rng: [Case((causal_weights(rng, 2, 16, 17), repeated_tokens(rng, 2, 17, 5)))],
    arguments={"weights": "batch head query key", "tokens": "batch token"},
    axes="head",
    fixed="query key token",
    wrong="""
found.transpose(1, 2)[has_copy].mean(dim=0) => found.mean(dim=(0, 2))
    a mean over all queries, even those whose token has no earlier copy
    ? What can a query find that sees its token for the first time?
.mean => .sum
    the sum over the queries; the mean is asked for
    ? How large can your result become?
comes_after_copy(tokens) => (tokens[:, :, None] == tokens[:, None]).tril(-1)
    the weight on the copies themselves, not on what comes after them
    ? Which key holds the answer: the copy, or its neighbour?
.sum => .amax
    the largest marked weight of each query; with several copies they should be added up
    ? What if a token has two earlier copies?
weights.movedim(1, -1)[comes_after_copy(tokens)].mean(0)
    a mean over the marked keys, not over the queries
    ? What if a token has two earlier copies: are their weights added up?
found.transpose(1, 2)[has_copy].mean(dim=0) => (found.sum(-1) / has_copy.sum(-1, keepdim=True)).mean(0)
    a mean of the samples' means: a sample with few copies counts as much as one with many
    ? By which number do you divide, and how often?
found.transpose(1, 2)[has_copy].mean(dim=0) => found.sum(-1) / has_copy.sum(-1, keepdim=True)
    a score for each sample and head: the samples are still apart
    ? Which axes have to go?
found.transpose(1, 2)[has_copy].mean(dim=0) => found.transpose(1, 2)[has_copy].mean()
    one number for all heads together
    ? Which axis has to stay?
(weights * comes_after_copy(tokens)[:, None]).mean((0, 2, 3))
    the marked weights divided by the number of all keys
    ? What do you divide by? How many queries have an earlier copy?
""",
)
