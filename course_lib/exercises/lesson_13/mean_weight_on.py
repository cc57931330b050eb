"""How much weight a head gives to the keys that one asks about."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

from .previous_token_score import causal_weights


def mean_weight_on(weights, wanted):
    # (batch, head, query, key), (batch, query, key) of bool -> (head)
    # (b, h, q, k) * (b, 1, q, k) -> (b, h, q)
    found = (weights * wanted[:, None]).sum(dim=-1)
    counts = wanted.any(dim=-1)  # (b, q)
    return found.transpose(1, 2)[counts].mean(dim=0)  # (query that counts, h) -> (h)


def _wanted(rng: InputGenerator, batch: int, num_tokens: int) -> Tensor:
    """Draw wanted keys, some queries with several of them and some with none, (batch, query, key)."""
    marked = rng.normal(batch, num_tokens, num_tokens) > 0.7
    rows = rng.normal(batch, num_tokens, 1) > torch.linspace(-1, 1, batch)[:, None, None]
    return (marked & rows).tril()


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for batch, heads, tokens in ((3, 2, 11), (2, 5, 13), (4, 3, 9)):
        weights = causal_weights(rng, batch, heads, tokens)
        weights[:, 0, ::2] = torch.eye(tokens, dtype=weights.dtype)[::2]  # these look at themselves alone
        cases.append(Case((weights, _wanted(rng, batch, tokens))))
    return cases


EXERCISE = FunctionExercise(
    mean_weight_on,
    title="Measure what a head looks at",
    difficulty=2,
    minutes=3,
    prompt=(
        "How much does each head look at the keys that `wanted` marks? For each query that has such a key, add up its "
        "weights on all of them. Return the mean of these sums for each head, over all such queries of all samples "
        "together. Queries without a wanted key don't count. `weights` is (batch, head, query, key), `wanted` is "
        "(batch, query, key) of bool."
    ),
    hints=(
        "First add up weights, (batch, head, query). Which of the queries count?",
        "`wanted[:, None]` has an axis for the heads; `wanted.any(dim=-1)` says which queries count.",
        "Move the heads to the end, `.transpose(1, 2)`, choose with the bool table (batch, query), and take the mean "
        "over what is left.",
    ),
    draw=_draw,
    arguments={"weights": "batch head query key", "wanted": "batch query key"},
    axes="head",
    fixed="query key",
    wrong="""
found.transpose(1, 2)[counts].mean(dim=0) => found.mean(dim=(0, 2))
    a mean over all queries, those without a wanted key included
    ? By how many queries do you divide?
found.transpose(1, 2)[counts].mean(dim=0) => found.transpose(1, 2)[counts].sum(dim=0)
    the sum over the queries; the mean is asked for
    ? How large may a mean of weights be?
return found.transpose(1, 2)[counts].mean(dim=0) => return (weights * wanted[:, None]).sum((0, 2, 3)) / wanted.sum()
    the mean weight of a wanted key: the weights of one query belong together
    ? A query has two wanted keys and gives 0.5 to each. What does it count?
return found.transpose(1, 2)[counts].mean(dim=0) => return (found.sum(-1) / counts.sum(-1, keepdim=True)).mean(0)
    the mean of the samples' means: a query counts more in a sample that has fewer
    ? Over which queries is the mean taken, if all samples are taken together?
return found.transpose(1, 2)[counts].mean(dim=0) => return found.transpose(1, 2)[counts].mean()
    one number for all heads together
    ? Which axis has to stay?
return found.transpose(1, 2)[counts].mean(dim=0) => return found.sum((0, 2)) / (found > 0).sum((0, 2))
    a mean without the queries that give their wanted keys a weight of 0
    ? A head never looks at the keys that are wanted. Which mean should it get?
wanted[:, None] => (~wanted[:, None])
    the weights on all other keys
    ? Which keys does True mark?
.sum(dim=-1) => .amax(dim=-1)
    the largest weight on a wanted key; all of them are added up
    ? What does a query with two wanted keys count?
""",
)
