"""Who looks at the token before."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def previous_token_score(weights):  # (batch, head, query, key) -> (head)
    before = weights.diagonal(-1, dim1=2, dim2=3)  # (b, h, q, k) -> (b, h, q - 1)
    return before.mean(dim=(0, 2))


def causal_weights(rng: InputGenerator, batch: int, head: int, token: int) -> Tensor:
    """Draw causal attention weights, (batch, head, query, key)."""
    keep = torch.ones(token, token, dtype=torch.bool).tril()
    return rng.normal(batch, head, token, token, std=1.5).masked_fill(~keep, -torch.inf).softmax(-1)


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
    inputs={"weights": causal_weights},
    also=({"batch": 1}, {"head": 1, "token": 2}),
    arguments={"weights": "batch head query key"},
    axes="head",
    fixed="query key",
    wrong="""
-1 => 0
    the mean weight on the token itself
    ? Which key does query 1 look at, if it looks back by one?
-1 => 1
    the mean weight on the token after
    ? Which index is the query's?
-1 => -2
    the mean weight on the token two before
    ? Which key does query 1 look at, if it looks back by one?
weights.diagonal(-1, 2, 3).sum(-1).mean(0) / weights.shape[-1]
    a mean that counts the first query, too: it has no token before it
    ? By how many queries do you divide?
weights.diagonal(-1, 2, 3).sum(-1).mean(0)
    the sum over the queries; the mean is asked for
    ? How large would the result be for a head that always looks back?
before.mean => before.sum
    the sum over samples and queries; the mean is asked for
    ? How large would the result be for a head that always looks back?
(0, 2) => 2
    a score of each head in each sample: the samples are still apart
    ? Over which axes is the mean taken?
before.mean(dim=(0, 2)) => before.mean()
    one number for all heads together
    ? Which axis has to stay?
weights.diagonal(-1).mean((0, 2))
    a mean over a diagonal of the first two axes, samples and heads: `diagonal` takes them if not told
    ? Which two axes are the rows and columns of one head's table?
weights.diagonal(-1).mean(-1)
    a mean over a diagonal of the first two axes, samples and heads: `diagonal` takes them if not told
    ? Which two axes are the rows and columns of one head's table?
weights.tril(-1).sum((0, 2, 3)) / (len(weights) * weights.shape[-1] * (weights.shape[-1] - 1) / 2)
    the mean of all weights below the main diagonal, not only of those next to it
    ? How many keys does each query have in your mean?
largest = weights[:, :, 1:].argmax(-1); return (largest == torch.arange(largest.shape[-1])).double().mean(dim=(0, 2))
    how often the token before gets the largest weight, not how large its weight is
    ? Is a weight of 0.9 worth more than one of 0.5?
weights.diagonal(-1, 2, 3).amax(-1).mean(0)
    the mean over the samples of the largest weight on the token before; all queries count
    ? Over which axes is the mean taken?
weights[:, :, 1, 0].mean(0)
    the weight that a single query gives to the token before it; all queries but the first count
    ? How many queries have a token before them?
weights[:, :, -1, -2].mean(0)
    the weight that a single query gives to the token before it; all queries but the first count
    ? How many queries have a token before them?
""",
)
