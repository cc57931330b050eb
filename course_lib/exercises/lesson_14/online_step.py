"""One block of an online softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise


def online_step(largest, total, context, scores, values):
    # 2 x (q), (q, d), (q, k), (k, d) -> (q), (q), (q, d)
    new_largest = torch.maximum(largest, scores.amax(dim=-1))
    shrink = (largest - new_largest).exp()  # (query)
    # (query, key), not divided by their sum
    weights = (scores - new_largest[:, None]).exp()
    return (
        new_largest,
        total * shrink + weights.sum(dim=-1),
        context * shrink[:, None] + weights @ values,
    )


def _scores(scores: Tensor, largest: Tensor) -> Tensor:
    """Return scores of which every second row has a larger one than the rows before, and the others have none."""
    higher = 2.0 * (torch.arange(len(scores)) % 2) - 1.0
    return scores - scores.amax(-1, keepdim=True) + (largest + higher)[:, None]


EXERCISE = FunctionExercise(
    online_step,
    title="One block of an online softmax",
    difficulty=3,
    minutes=4,
    prompt=(
        "A fused kernel never has a whole row of scores. For each query it keeps three things of the keys so far: "
        "`largest`, the largest score; `total`, the sum of exp(score - largest); and `context`, the sum of exp(score - "
        "largest) * value. Here comes the next block: its `scores`, already scaled, and its `values`. Give back the "
        "new `largest`, `total` and `context`, with this block in them. Don't divide: that is done once, after the "
        "last block. Return new tensors; the arguments stay as they are. Before the first block, `largest` is -inf and "
        "the other two are 0."
    ),
    hints=(
        "First the new largest score. What was summed up so far still refers to the old one.",
        "exp(score - new) is exp(score - old) * exp(old - new): multiply the old sums by exp(old - new), one number "
        "per query.",
        "`new = torch.maximum(largest, scores.amax(-1))`, `shrink = (largest - new).exp()` and "
        "`weights = (scores - new[:, None]).exp()`; then `total * shrink + weights.sum(-1)`, and the context likewise.",
    ),
    inputs={
        "earlier": "query before",
        "largest": lambda earlier: earlier.amax(-1),
        "total": lambda earlier, largest: (earlier - largest[:, None]).exp().sum(-1),
        "context": lambda rng, earlier, largest, before, head_dim: (
            (earlier - largest[:, None]).exp() @ rng.normal(before, head_dim)
        ),
        "scores": _scores,
    },
    calls=2,
    std=1.5,
    special={
        "no block came before": {
            "largest": lambda query: torch.full((query,), -torch.inf, dtype=torch.float64),
            "total": lambda query: torch.zeros(query, dtype=torch.float64),
            "context": lambda query, head_dim: torch.zeros(query, head_dim, dtype=torch.float64),
            "scores": "query key",
        },
        "the scores are about 1000": {"earlier": lambda earlier: earlier + 1000.0},
    },
    arguments={
        "largest": "query",
        "total": "query",
        "context": "query head_dim",
        "scores": "query key",
        "values": "key head_dim",
    },
    axes="largest total context",
    wrong="""
largest - => new_largest -
    a step that leaves the old sums as they are when a larger score comes
    ? To which largest score do the old sums refer?
context * shrink[:, None] => context
    a step whose context is not made smaller when a larger score comes
    ? What is the old context a sum of?
total * shrink => total
    a step whose total is not made smaller when a larger score comes
    ? What is the old total a sum of?
largest - new_largest => new_largest - largest
    a step that makes the old sums larger instead of smaller
    ? Is the new largest score above or below the old one?
torch.maximum(largest, scores.amax(dim=-1)) => scores.amax(dim=-1)
    a step that forgets the old largest score, even if it was larger
    ? What is the largest score of all blocks so far?
(scores - new_largest[:, None]) => (scores - scores.amax(dim=-1, keepdim=True))
    a step that compares this block's scores with this block's largest score only
    ? Which largest score do the new weights refer to? And the old ones?
(scores - new_largest[:, None]) => (scores - largest[:, None])
    a step whose new weights refer to the old largest score
    ? To which largest score do the new weights refer?
(largest - new_largest) => (0 * total) && (scores - new_largest[:, None]) => scores
    a step that never subtracts the largest score: exp(1000) is infinite
    ? What does exp get to see if all scores are about 1000?
(*result[:2], result[2] / result[1][:, None])
    a step that divides by the total already
    ? When is the sum over all keys known?
(scores - new_largest[:, None]).exp() => scores.softmax(dim=-1)
    a step that takes softmax of the block alone
    ? What does a block's softmax know about the other blocks?
torch.maximum(largest, scores.amax(dim=-1)) => torch.maximum(largest.max(), scores.max()).expand_as(largest)
    a step with one largest score for all queries
    ? Over which axis is the largest score sought? Each query has its own.
torch.maximum => torch.minimum
    a step that keeps the smaller of the two largest scores
    ? What is the largest score of all keys so far?
torch.maximum(largest, scores.amax(dim=-1)) => largest
    a step that keeps the old largest score, even if a larger one came
    ? What is the largest score of all keys so far?
total * => 0.0 * && context * => 0.0 *
    a step that forgets what came before: its total and context are those of this block alone
    ? What becomes of the old total and the old context?
new_largest, => largest,
    a step that gives back the old largest score beside the right sums
    ? Which largest score do the new sums refer to?
total * shrink + weights.sum(dim=-1) => (total + weights.sum(dim=-1)) * shrink && context * shrink[:, None] + weights @ values => (context + weights @ values) * shrink[:, None]
    a step that makes the new weights smaller as well; only the old sums refer to another largest score
    ? To which largest score do the new weights refer already?
(largest - new_largest).exp() => largest - new_largest
    a step that multiplies the old sums by the difference of the largest scores, not by exp of it
    ? What becomes of exp(score - old) if the larger number is to be taken away?
weights.sum => weights.mean
    a step whose total takes the mean of the new weights, not their sum
    ? What is the total a sum of?
total * shrink + weights.sum(dim=-1) => total + weights.sum(dim=-1) * shrink && context * shrink[:, None] + weights @ values => context + weights @ values * shrink[:, None]
    a step that makes the new weights smaller instead of the old sums
    ? Which of the sums refers to the old largest score?
(result[1], result[0], result[2])
    a step that gives back the total first; the largest score comes first
    ? In which order are the three given back?
""",
)
