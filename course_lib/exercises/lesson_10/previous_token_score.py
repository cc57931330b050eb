"""Who looks at the token before."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def previous_token_score(weights):  # (batch, head, query, key) -> (head)
    before = weights.diagonal(-1, dim1=2, dim2=3)  # (b, h, q, k) -> (b, h, q - 1)
    return before.mean(dim=(0, 2))


def _diagonal(weights: Tensor, offset: int) -> Tensor:
    return weights.diagonal(offset, 2, 3).mean(dim=(0, 2))


def _how_often_largest(weights: Tensor) -> Tensor:
    largest = weights[:, :, 1:].argmax(-1)
    return (largest == torch.arange(largest.shape[-1])).double().mean(dim=(0, 2))


def causal_weights(rng: InputGenerator, batch: int, heads: int, num_tokens: int) -> Tensor:
    """Draw causal attention weights, (batch, head, query, key)."""
    keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    return rng.normal(batch, heads, num_tokens, num_tokens, std=1.5).masked_fill(~keep, -torch.inf).softmax(-1)


def _draw(rng: InputGenerator) -> list[Case]:
    return [Case((causal_weights(rng, *sizes),)) for sizes in (*rng.size_rows(3, 3, 3, 9), (1, 2, 4), (3, 1, 2))]


EXERCISE = FunctionExercise(
    previous_token_score,
    title="Who looks at the token before",
    difficulty=2,
    minutes=3,
    prompt=(
        "How much does each head look at the token right before? For each head, give back the mean weight that a query "
        "gives to the token before it, over all samples and over all queries that have one: all but the first."
    ),
    hints=(
        "Query 1 looks at key 0, query 2 at key 1, and so on. Where do these weights stand in the table?",
        "They are the diagonal one below the main one, and it has one element less than there are queries.",
        "`weights.diagonal(-1, 2, 3)` is (batch, head, query - 1). Take the mean over the samples and the queries, "
        "not over the heads.",
    ),
    draw=_draw,
    arguments={"weights": "batch head query key"},
    axes="head",
    fixed="query key",
    wrong=(
        Wrong(
            "the mean weight on the token itself",
            lambda w: _diagonal(w, 0),
            hint="Which key does query 1 look at, if it looks back by one?",
        ),
        Wrong("the mean weight on the token after", lambda w: _diagonal(w, 1), hint="Which index is the query's?"),
        Wrong(
            "the mean weight on the token two before",
            lambda w: _diagonal(w, -2),
            hint="Which key does query 1 look at, if it looks back by one?",
        ),
        Wrong(
            "a mean that counts the first query, too: it has no token before it",
            lambda w: w.diagonal(-1, 2, 3).sum(-1).mean(0) / w.shape[-1],
            hint="By how many queries do you divide?",
        ),
        Wrong(
            "the sum over the queries; the mean is asked for",
            lambda w: w.diagonal(-1, 2, 3).sum(-1).mean(0),
            hint="How large would the result be for a head that always looks back?",
        ),
        Wrong(
            "the sum over samples and queries; the mean is asked for",
            lambda w: w.diagonal(-1, 2, 3).sum(dim=(0, 2)),
            hint="How large would the result be for a head that always looks back?",
        ),
        Wrong(
            "a score of each head in each sample: the samples are still apart",
            lambda w: w.diagonal(-1, 2, 3).mean(-1),
            hint="Over which axes is the mean taken?",
        ),
        Wrong(
            "one number for all heads together",
            lambda w: w.diagonal(-1, 2, 3).mean(),
            hint="Which axis has to stay?",
        ),
        *(
            Wrong(
                "a mean over a diagonal of the first two axes, samples and heads: `diagonal` takes them if not told",
                lambda w, axes=axes: w.diagonal(-1).mean(axes),
                hint="Which two axes are the rows and columns of one head's table?",
            )
            for axes in ((0, 2), -1)
        ),
        Wrong(
            "the mean of all weights below the main diagonal, not only of those next to it",
            lambda w: w.tril(-1).sum((0, 2, 3)) / (len(w) * w.shape[-1] * (w.shape[-1] - 1) / 2),
            hint="How many keys does each query have in your mean?",
        ),
        Wrong(
            "how often the token before gets the largest weight, not how large its weight is",
            _how_often_largest,
            hint="Is a weight of 0.9 worth more than one of 0.5?",
        ),
        Wrong(
            "the mean over the samples of the largest weight on the token before; all queries count",
            lambda w: w.diagonal(-1, 2, 3).amax(-1).mean(0),
            hint="Over which axes is the mean taken?",
        ),
        *(
            Wrong(
                "the weight that a single query gives to the token before it; all queries but the first count",
                lambda w, query=query: w[:, :, query, query - 1].mean(0) if query > 0 else w[:, :, -1, -2].mean(0),
                hint="How many queries have a token before them?",
            )
            for query in (1, -1)
        ),
    ),
)
